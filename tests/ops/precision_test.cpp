#include "attend/ops/precision.h"

#include <gtest/gtest.h>

#include "attend/ops/linear.h"
#include "attend/ops/linear_cross_entropy.h"
#include "attend/ops/shape.h"
#include "backend/cpu/matmul/bf16.h"
#include "backend/kernels.h"
#include "ops/product.h"
#include "ops/reshaped.h"
#include "testing/gradients.h"
#include "testing/values.h"

namespace attend {
namespace {

using testing::expect_error;
using testing::host_values;
using testing::random_f32;

/// Runs each test with every bf16 unit of this machine. Plain C++ is one of them, so that packing and edges are tested
/// on every machine.
class Bf16 : public ::testing::TestWithParam<const cpu::Bf16Unit*> {
 protected:
  void SetUp() override { cpu::set_bf16_unit_for_test(GetParam()); }
  void TearDown() override { cpu::set_bf16_unit_for_test(nullptr); }
};
INSTANTIATE_TEST_SUITE_P(Units, Bf16, ::testing::ValuesIn(cpu::bf16_units_for_test()),
                         [](const auto& unit) { return std::string(unit.param->name); });

struct Sizes {
  int64_t m, k, n;
};

enum class Layout { dense, transposed, sparse };

Tensor laid_out(Layout layout, int64_t rows, int64_t cols, uint64_t seed) {
  if (layout == Layout::dense) return host_values({rows, cols}, seed, DType::f32);
  if (layout == Layout::transposed) return transposed(host_values({cols, rows}, seed, DType::f32), 0, 1);
  return host_values({2 * rows, 3 * cols}, seed, DType::f32).as_strided({rows, cols}, {6 * cols, 3}, 0);
}

Tensor multiplied(const Tensor& a, const Tensor& b, const MatmulOptions& options, double before = NAN) {
  const Tensor c = full({a.dim(0), b.dim(1)}, before, {a.dtype()});
  kernels(default_device()).matmul.multiply(a.view(), b.view(), c.view(), options);
  return c;
}

/// The operand rounded to bf16, so that only the rounding of f32 sums remains.
Tensor rounded(const Tensor& x) { return to(to(x, DType::bf16), DType::f64); }

void expect_product(const Sizes& s, Layout la, Layout lb) {
  SCOPED_TRACE(::testing::Message() << s.m << "x" << s.k << "x" << s.n << " layouts " << int(la) << int(lb));
  const Tensor a = laid_out(la, s.m, s.k, 1), b = laid_out(lb, s.k, s.n, 2), bias = host_values({s.n}, 3, DType::f32);
  const auto expected = multiplied(rounded(a), rounded(b), {}).to_vector<double>();
  const double tolerance = 3e-6 * std::sqrt(static_cast<double>(s.k) + 1);
  testing::expect_close(multiplied(a, b, {.bf16 = true}), expected, tolerance);
  std::vector<double> shifted = expected;
  const auto shift = bias.to_vector<double>();
  for (size_t i = 0; i < shifted.size(); ++i) shifted[i] += shift[i % shift.size()];
  testing::expect_close(multiplied(a, b, {.bias = bias.view(), .bf16 = true}), shifted, tolerance);
  std::vector<double> added = expected;
  for (double& value : added) value += 2;
  testing::expect_close(multiplied(a, b, {.accumulate = true, .bf16 = true}, 2), added, tolerance);
}

TEST_P(Bf16, EveryLayoutAndEdge) {
  if (default_device() != kCpu) GTEST_SKIP() << "the units are those of the CPU";
  for (const Sizes& s : {Sizes{32, 32, 32}, Sizes{33, 47, 65}, Sizes{70, 600, 100}, Sizes{300, 33, 64},
                         Sizes{64, 1030, 33}, Sizes{40, 64, 2100}}) {
    for (const Layout la : {Layout::dense, Layout::transposed, Layout::sparse}) {
      for (const Layout lb : {Layout::dense, Layout::transposed, Layout::sparse}) expect_product(s, la, lb);
    }
  }
}

TEST_P(Bf16, DeeperThanIsPackedAtATime) { expect_product({513, 9000, 40}, Layout::dense, Layout::transposed); }

TEST_P(Bf16, SpecialValuesPassThrough) {
  Tensor a = full({40, 64}, 1);
  testing::set_element(a, 0, INFINITY);
  testing::set_element(a, 64, NAN);
  const auto c = multiplied(a, full({64, 35}, 1), {.bf16 = true}).to_vector<double>();
  EXPECT_EQ(c[0], INFINITY);
  EXPECT_TRUE(std::isnan(c[35]));
  EXPECT_EQ(c[70], 64);
}

TEST_P(Bf16, SameBitsOnAnyNumberOfThreads) {
  const PrecisionScope scope(Precision::bf16);
  testing::expect_same_bits([](const auto& in) { return linear(in[0], in[1], in[2]); },
                            {random_f32({300, 70}, 1), random_f32({130, 70}, 2), random_f32({130}, 3)});
}

/// The gradients of the scalar f(inputs), concatenated.
std::vector<double> gradients(const std::vector<Tensor>& inputs, const testing::TensorFunction& f) {
  std::vector<Tensor> leaves;
  for (const Tensor& input : inputs) leaves.push_back(parameter(input.clone()));
  backward(f(leaves));
  std::vector<double> result;
  for (const Tensor& leaf : leaves) {
    const auto values = grad(leaf).to_vector<double>();
    result.insert(result.end(), values.begin(), values.end());
  }
  return result;
}

// Each rounding error is within 2⁻⁹. The gradients use bf16 although the scope ends before backward().
TEST_P(Bf16, GradientsAreNearThoseOfF32) {
  const std::vector<Tensor> inputs{random_f32({80, 64}, 1), random_f32({96, 64}, 2), random_f32({96}, 3),
                                   random_f32({50, 96}, 4)};
  std::vector<int64_t> values(80);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int64_t>(i * 7 % 50);
  const Tensor target = tensor(values, {80});
  const auto loss = [&](const auto& in) {
    return linear_cross_entropy(linear(in[0], in[1], in[2]), in[3], {}, target);
  };
  const auto exact = gradients(inputs, loss);
  const auto near = gradients(inputs, [&](const auto& in) {
    const PrecisionScope scope(Precision::bf16);
    return loss(in);
  });
  double difference = 0, size = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    difference += (near[i] - exact[i]) * (near[i] - exact[i]);
    size += exact[i] * exact[i];
  }
  const double relative = std::sqrt(difference / size);
  EXPECT_LT(relative, 0.02);
  EXPECT_GT(relative, 1e-5);  // otherwise nothing was rounded
}

TEST(Precision, ScopesNestAndEnd) {
  cpu::set_bf16_unit_for_test(cpu::bf16_units_for_test()[0]);
  {
    const PrecisionScope outer(Precision::bf16);
    {
      const PrecisionScope inner(Precision::f32);
      EXPECT_EQ(current_precision(), Precision::f32);
    }
    EXPECT_EQ(current_precision(), Precision::bf16);
  }
  EXPECT_EQ(current_precision(), Precision::f32);
  cpu::set_bf16_unit_for_test(nullptr);
}

TEST(Precision, Tf32NeedsAGpu) {
  expect_error<DeviceError>([] { const PrecisionScope scope(Precision::tf32, kCpu); }, "tf32 needs a GPU");
}

// TF32 rounds operands to 10 bits after the point; f32 stays exact.
TEST(Precision, Tf32RoundsOperandsOnAGpu) {
  if (default_device() == kCpu) GTEST_SKIP() << "no GPU: set ATTEND_TEST_DEVICE=cuda";
  const Tensor x = parameter(random_f32({256, 512}, 1)), w = parameter(random_f32({384, 512}, 2));
  const auto run = [&](Precision precision) {
    const PrecisionScope scope(precision, default_device());
    return linear(x, w).to_vector<double>();
  };
  const auto exact =
      product(to(x.detach(), DType::f64), to(transposed(w.detach(), 0, 1), DType::f64)).to_vector<double>();
  const auto error = [&](const std::vector<double>& values) {
    double sum = 0;
    for (size_t i = 0; i < values.size(); ++i) sum += std::pow(values[i] - exact[i], 2);
    return std::sqrt(sum / static_cast<double>(values.size()));
  };
  EXPECT_LT(error(run(Precision::f32)), 1e-5);
  EXPECT_GT(error(run(Precision::tf32)), 2e-4);  // √512 terms of 1/3, each within 2⁻¹¹ · √2
  EXPECT_LT(error(run(Precision::tf32)), 1e-2);
}

TEST(BatchInvariance, HoldsInAScopeUnlessItIsOff) {
  EXPECT_FALSE(is_batch_invariant());
  const BatchInvariantScope scope;
  EXPECT_TRUE(is_batch_invariant());
  set_batch_invariance(false);
  EXPECT_FALSE(is_batch_invariant());
  set_batch_invariance(true);
  EXPECT_TRUE(is_batch_invariant());
}

TEST(Precision, AMachineWithoutBf16Throws) {
  if (has_bf16()) GTEST_SKIP() << "this machine multiplies bf16";
  const std::string message =
      "bfloat16 products need a CPU where they are faster than float32: AMX, or AVX512-BF16 of an AMD processor";
  expect_error<DeviceError>([] { const PrecisionScope scope(Precision::bf16); }, message);
  expect_error<DeviceError>([] { multiplied(ones({40, 40}), ones({40, 40}), {.bf16 = true}); }, message);
}

}  // namespace
}  // namespace attend
