#include <gtest/gtest.h>
#include <hwy/highway.h>

#include "backend/cpu/instruction_set.h"
#include "backend/kernels.h"
#include "ops/broadcast.h"
#include "ops/reshaped.h"
#include "testing/gradients.h"
#include "testing/values.h"

namespace attend {
namespace {

using testing::host_values;
using testing::Reader;

struct Sizes {
  int64_t m, k, n;
};

/// The memory layout of an operand: dense, transposed, or every third element of every second row.
enum class Layout { dense, transposed, sparse };

Tensor laid_out(Layout layout, int64_t batch, int64_t rows, int64_t cols, uint64_t seed, DType dtype) {
  if (layout == Layout::transposed) return transposed(host_values({batch, cols, rows}, seed, dtype), 1, 2);
  if (layout == Layout::dense) return host_values({batch, rows, cols}, seed, dtype);
  const Tensor wide = host_values({batch, 2 * rows, 3 * cols}, seed, dtype);
  return wide.as_strided({batch, rows, cols}, {6 * rows * cols, 6 * cols, 3}, 0);
}

std::vector<double> naive(const Tensor& a, const Tensor& b) {
  std::vector<double> c;
  const Tensor columns = transposed(b, 1, 2);
  for (int64_t batch = 0; batch < a.dim(0); ++batch) {
    const auto matrix = [&](const Tensor& x) {
      return x.as_strided({x.dim(1), x.dim(2)}, {x.strides()[1], x.strides()[2]}, x.offset() + batch * x.strides()[0]);
    };
    const auto part = testing::naive_linear(matrix(a), matrix(columns), {});
    c.insert(c.end(), part.begin(), part.end());
  }
  return c;
}

Tensor multiplied(const Tensor& a, const Tensor& b, const MatmulOptions& options = {}, double before = NAN) {
  const Tensor c = full({a.dim(0), a.dim(1), b.dim(2)}, before, {a.dtype()});
  kernels(default_device()).matmul.multiply(a.view(), b.view(), c.view(), options);
  return c;
}

/// For terms in [-1, 1) the error grows like √k times the rounding unit, not like k.
double tolerance(DType dtype, int64_t k) {
  return (dtype == DType::f32 ? 1.2e-7 : 2.3e-16) * 8 * std::sqrt(static_cast<double>(k) + 1);
}

void expect_product(const Sizes& size, Layout la, Layout lb, int64_t batch, DType dtype) {
  SCOPED_TRACE(::testing::Message() << size.m << "x" << size.k << "x" << size.n << " layouts " << int(la) << int(lb)
                                    << " batch " << batch << " " << name_of(dtype));
  const Tensor a = laid_out(la, batch, size.m, size.k, 1, dtype), b = laid_out(lb, batch, size.k, size.n, 2, dtype);
  testing::expect_close(multiplied(a, b), naive(a, b), tolerance(dtype, size.k));
}

constexpr Layout kLayouts[] = {Layout::dense, Layout::transposed, Layout::sparse};

TEST(MatmulKernel, OddSizesInEveryLayout) {
  for (const Sizes& size : {Sizes{1, 1, 1}, Sizes{1, 300, 50}, Sizes{2, 33, 31}, Sizes{3, 7, 25}, Sizes{4, 257, 100},
                            Sizes{5, 31, 24}, Sizes{17, 9, 23}, Sizes{33, 31, 49}, Sizes{40, 300, 1},
                            Sizes{131, 257, 73}, Sizes{20, 1, 30}, Sizes{300, 5, 2}, Sizes{31, 600, 33}}) {
    for (const Layout la : kLayouts) {
      for (const Layout lb : kLayouts) {
        for (const DType dtype : {DType::f32, DType::f64}) expect_product(size, la, lb, 1, dtype);
      }
    }
  }
}

TEST(MatmulKernel, EveryInstructionSetOfThisMachine) {
  const auto dispatch_to = [](int64_t targets) {
    hwy::SetSupportedTargetsForTest(targets);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  };
  cpu::instruction_set();  // before querying Highway, so that ATTEND_CPU limits its targets
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    dispatch_to(target);
    for (const Layout la : kLayouts) {
      for (const Layout lb : kLayouts) {
        for (const int64_t rows : {1, 7, 77}) {
          expect_product({rows, 301, 63}, la, lb, 1, DType::f32);
          expect_product({rows, 31, 63}, la, lb, 1, DType::f64);
        }
      }
    }
  }
  dispatch_to(0);
}

TEST(MatmulKernel, ManyAndFewMatrices) {
  for (const int64_t batch : {2, 3, 40}) {
    for (const Layout layout : kLayouts) {
      expect_product({5, 6, 7}, layout, Layout::dense, batch, DType::f32);
      expect_product({35, 70, 26}, Layout::dense, layout, batch, DType::f64);
    }
  }
  expect_product({130, 70, 126}, Layout::dense, Layout::transposed, 3, DType::f32);
}

TEST(MatmulKernel, LargerThanEveryBlock) {
  expect_product({700, 600, 200}, Layout::dense, Layout::transposed, 1, DType::f32);
  expect_product({200, 3000, 500}, Layout::transposed, Layout::dense, 1, DType::f32);
  expect_product({150, 530, 1100}, Layout::transposed, Layout::transposed, 1, DType::f64);
}

// Every number of vectors beyond full panels, and every number of columns beyond a full vector.
TEST(MatmulKernel, EveryWidth) {
  for (int64_t n = 1; n <= 100; ++n) {
    expect_product({40, 9, n}, Layout::dense, n % 2 == 0 ? Layout::dense : Layout::transposed, 1, DType::f32);
    expect_product({270, 9, n}, Layout::dense, n % 2 == 0 ? Layout::transposed : Layout::dense, 1, DType::f32);
    expect_product({34, 9, n}, Layout::transposed, Layout::dense, 1, DType::f64);
  }
}

TEST(MatmulKernel, RowsPackedInMemoryOrder) {
  for (const Layout layout : kLayouts) expect_product({263, 270, 600}, layout, Layout::dense, 1, DType::f32);
}

// With few elements of c and a deep k, the kernel splits k, multiplies the parts separately and adds them up.
TEST(MatmulKernel, SplitAlongTheDepth) {
  for (const Sizes& size : {Sizes{33, 1100, 20}, Sizes{150, 4100, 70}, Sizes{300, 2048, 24}}) {
    for (const Layout layout : kLayouts) expect_product(size, layout, Layout::dense, 1, DType::f32);
  }
}

TEST(MatmulKernel, ABatchThatIsOneProduct) {
  const Tensor a = host_values({6, 35, 40}, 1), b = stretched(host_values({40, 30}, 2), {6, 40, 30}, "test");
  testing::expect_close(multiplied(a, b), naive(a, b), 1e-13);
}

TEST(MatmulKernel, NoInnerDimensionGivesZeroOrTheBias) {
  for (const Layout layout : kLayouts) {
    for (const int64_t m : {1, 3, 50}) {
      const Tensor a = laid_out(layout, 1, m, 0, 1, DType::f32), b = laid_out(Layout::dense, 1, 0, 26, 2, DType::f32);
      testing::expect_close(multiplied(a, b), std::vector<double>(static_cast<size_t>(26 * m), 0), 0);
      const Tensor bias = ones({26});
      testing::expect_close(multiplied(a, b, {.bias = bias.view()}),
                            std::vector<double>(static_cast<size_t>(26 * m), 1), 0);
    }
  }
}

TEST(MatmulKernel, BiasAndAccumulation) {
  for (const Sizes& size :
       {Sizes{1, 40, 30}, Sizes{4, 40, 30}, Sizes{60, 600, 53}, Sizes{60, 20, 3}, Sizes{70, 2100, 30}}) {
    for (const Layout layout : kLayouts) {
      const Tensor a = laid_out(layout, 1, size.m, size.k, 1, DType::f64);
      const Tensor b = laid_out(layout, 1, size.k, size.n, 2, DType::f64);
      const Tensor wide = host_values({size.n, 2}, 3);
      const Tensor bias = wide.as_strided({size.n}, {2}, 1);
      auto expected = naive(a, b);
      const Reader shift(bias);
      for (size_t i = 0; i < expected.size(); ++i) expected[i] += shift(static_cast<int64_t>(i) % size.n);
      testing::expect_close(multiplied(a, b, {.bias = bias.view()}), expected, 1e-12);
      for (double& value : expected) value += 5;
      testing::expect_close(multiplied(a, b, {.accumulate = true, .bias = bias.view()}, 5), expected, 1e-12);
    }
  }
}

TEST(MatmulKernel, ResidualAndRowSums) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const Sizes& size : {Sizes{1, 40, 30}, Sizes{60, 600, 56}, Sizes{64, 2100, 32}, Sizes{7, 1, 3}}) {
      for (const Layout layout : kLayouts) {
        const Tensor a = laid_out(layout, 1, size.m, size.k, 1, dtype),
                     b = laid_out(layout, 1, size.k, size.n, 2, dtype);
        const Tensor left = a.as_strided({size.m, size.k}, {a.strides()[1], a.strides()[2]}, a.offset());
        const Tensor right = b.as_strided({size.k, size.n}, {b.strides()[1], b.strides()[2]}, b.offset());
        const Tensor bias = host_values({size.n}, 3, dtype), residual = host_values({size.m, size.n}, 4, dtype);
        const Tensor c = full({size.m, size.n}, NAN, {dtype}), sums = full({size.m}, NAN, {dtype});
        const MatmulKernels& kernel = kernels(default_device()).matmul;
        kernel.multiply(left.view(), right.view(), c.view(), {.bias = bias.view(), .residual = residual.view()});
        auto expected = naive(a, b);
        const Reader shift(bias), added(residual), as(left);
        for (size_t i = 0; i < expected.size(); ++i) {
          const auto at = static_cast<int64_t>(i);
          expected[i] += shift(at % size.n) + added(at / size.n, at % size.n);
        }
        testing::expect_close(c, expected, tolerance(dtype, size.k));
        kernel.multiply(left.view(), right.view(), c.view(), {.row_sums = sums.view()});
        testing::expect_close(c, naive(a, b), tolerance(dtype, size.k));
        std::vector<double> totals;
        for (int64_t i = 0; i < size.m; ++i) {
          totals.push_back(0);
          for (int64_t p = 0; p < size.k; ++p) totals.back() += as(i, p);
        }
        testing::expect_close(sums, totals, tolerance(dtype, size.k));
      }
    }
  }
}

TEST(MatmulKernel, SpecialValuesPassThrough) {
  // An infinity reaches its own row and no other, however the tile is padded.
  for (const int64_t rows : {2, 40}) {
    Tensor a = full({1, rows, 5}, 1);
    a.data<float>()[0] = INFINITY;
    const auto c = multiplied(a, full({1, 5, 7}, 1)).to_vector<double>();
    for (int64_t i = 0; i < 7 * rows; ++i) EXPECT_EQ(c[static_cast<size_t>(i)], i < 7 ? INFINITY : 5);
  }
}

TEST(MatmulKernel, SameBitsOnAnyNumberOfThreads) {
  const int before = threads();
  for (const Sizes& size : {Sizes{1, 900, 900}, Sizes{3, 900, 900}, Sizes{260, 600, 300}, Sizes{130, 2100, 128}}) {
    for (const Layout la : kLayouts) {
      for (const Layout lb : kLayouts) {
        const Tensor a = laid_out(la, 1, size.m, size.k, 1, DType::f32),
                     b = laid_out(lb, 1, size.k, size.n, 2, DType::f32);
        set_threads(1);
        const auto alone = multiplied(a, b).to_vector<float>();
        set_threads(3);
        EXPECT_EQ(alone, multiplied(a, b).to_vector<float>());
      }
    }
  }
  set_threads(before);
}

}  // namespace
}  // namespace attend
