// Products with bf16 and int8 weights against naive ones, on every instruction set of this machine.
#include <gtest/gtest.h>

#include <cmath>

#include "attend/base/threads.h"
#include "attend/ops/linear.h"
#include "attend/ops/weight_format.h"
#include "backend/cpu/int8/int8.h"
#include "ops/weight_matrix.h"
#include "testing/gradients.h"
#include "testing/values.h"

namespace attend {
namespace {

using testing::expect_close;
using testing::host_values;
using testing::naive_linear;

struct Sizes {
  int64_t rows, in, out;
};

std::vector<Sizes> all_sizes() {
  std::vector<Sizes> result;
  for (const int64_t rows : {0, 1, 2, 3, 4, 5, 16, 17, 31, 33, 257}) {
    for (const int64_t in : {1, 31, 33, 64, 257}) {
      for (const int64_t out : {1, 31, 33, 257}) result.push_back({rows, in, out});
    }
  }
  result.push_back({1, 0, 5});
  result.push_back({33, 0, 5});
  result.push_back({3, 5, 0});
  result.push_back({130, 1300, 100});  // several parts of k, several stripes
  for (const int64_t rows : {1, 2, 3, 4, 6}) result.push_back({rows, 300, 1031});  // two streams and a remainder
  result.push_back({600, 96, 1200});
  return result;
}

/// The naive result and its tolerance.
struct Expected {
  std::vector<double> values, tolerance;
};

class Int8Weights : public ::testing::TestWithParam<const cpu::Int8Unit*> {
 protected:
  void SetUp() override { cpu::set_int8_unit_for_test(GetParam()); }
  void TearDown() override { cpu::set_int8_unit_for_test(nullptr); }
};
INSTANTIATE_TEST_SUITE_P(Units, Int8Weights, ::testing::ValuesIn(cpu::int8_units_for_test()),
                         [](const auto& unit) { return std::string(unit.param->name); });

/// Naive int8: rounds x and the weights as documented, and sums exactly.
std::vector<float> naive_int8(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const auto steps = [](const Tensor& matrix, int64_t row) {
    const auto values = matrix.data<const float>().subspan(static_cast<size_t>(row * matrix.dim(1)),
                                                           static_cast<size_t>(matrix.dim(1)));
    float most = 0;
    for (const float value : values) most = std::max(most, std::abs(value));
    std::vector<int> result;
    for (const float value : values) {
      result.push_back(most > 0 ? static_cast<int>(std::nearbyintf(value * (127 / most))) : 0);
    }
    return std::pair(result, most / 127);
  };
  std::vector<std::pair<std::vector<int>, float>> weights;
  for (int64_t j = 0; j < weight.dim(0); ++j) weights.push_back(steps(weight, j));
  std::vector<float> result;
  for (int64_t i = 0; i < x.dim(0); ++i) {
    const auto [row, row_step] = steps(x, i);
    for (int64_t j = 0; j < weight.dim(0); ++j) {
      const auto& [line, line_step] = weights[static_cast<size_t>(j)];
      int sum = 0;
      for (size_t p = 0; p < line.size(); ++p) sum += row[p] * line[p];
      result.push_back(
          std::fma(static_cast<float>(sum), row_step * line_step, bias.data<const float>()[static_cast<size_t>(j)]));
    }
  }
  return result;
}

TEST_P(Int8Weights, AreMultipliedExactly) {
  for (const Sizes& s : all_sizes()) {
    SCOPED_TRACE(::testing::Message() << s.rows << " x " << s.in << " -> " << s.out);
    const Tensor x = host_values({s.rows, s.in}, 1, DType::f32), weight = host_values({s.out, s.in}, 2, DType::f32);
    const Tensor bias = host_values({s.out}, 3, DType::f32);
    const Tensor held = in_format(weight, WeightFormat::int8);
    const std::vector<float> expected = naive_int8(x, weight, bias);
    EXPECT_EQ(linear(x, held, bias).to_vector(), expected);  // to the bit
    pack_matrix(held);
    EXPECT_EQ(linear(x, held, bias).to_vector(), expected) << "packed";
  }
}

TEST_P(Int8Weights, LargestSumsDoNotOverflow) {
  const Tensor x = full({40, 4096}, -3), weight = full({30, 4096}, 5);
  for (const int64_t rows : {1, 40}) {
    const Tensor y = linear(full({rows, 4096}, -3), in_format(weight, WeightFormat::int8));
    for (const float value : y.to_vector()) EXPECT_NEAR(value, -15 * 4096, 0.1);
  }
}

TEST_P(Int8Weights, ARowDoesNotDependOnItsNeighbours) {
  const Tensor x = host_values({64, 257}, 1, DType::f32), weight = host_values({100, 257}, 2, DType::f32);
  const Tensor held = in_format(weight, WeightFormat::int8);
  const auto together = linear(x, held).to_vector();
  for (int64_t i = 0; i < 64; i += 7) {
    const Tensor row = x.as_strided({1, 257}, {257, 1}, i * 257).clone();
    const auto alone = linear(row, held).to_vector();
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), together.begin() + i * 100)) << i;
  }
}

TEST_P(Int8Weights, SameBitsOnAnyNumberOfThreads) {
  const int before = threads();
  for (const int64_t rows : {1, 5, 100}) {
    const Tensor x = host_values({rows, 300}, 1, DType::f32);
    const Tensor held = in_format(host_values({700, 300}, 2, DType::f32), WeightFormat::int8);
    set_threads(1);
    const auto one = linear(x, held).to_vector();
    set_threads(3);
    EXPECT_EQ(linear(x, held).to_vector(), one);
  }
  set_threads(before);
}

TEST_P(Int8Weights, NanAndInfinityPropagate) {
  Tensor x = host_values({20, 33}, 1, DType::f32);
  x.data<float>()[5] = NAN;
  x.data<float>()[2 * 33] = INFINITY;
  const Tensor held = in_format(host_values({30, 33}, 2, DType::f32), WeightFormat::int8);
  const auto y = linear(x, held).to_vector();
  for (size_t j = 0; j < 30; ++j) {
    EXPECT_TRUE(std::isnan(y[j]));
    EXPECT_TRUE(std::isfinite(y[30 + j]));
    EXPECT_TRUE(std::isnan(y[60 + j]));
  }
  EXPECT_EQ(linear(zeros({1, 33}), held).to_vector(), std::vector<float>(30, 0.0f));
}

/// bf16 weights times f32: f32 sums, in any order, of products with rounded weights. On a machine with bf16 products, x
/// is rounded too unless there are only a few rows.
TEST(Bf16Weights, MatchRoundedWeights) {
  for (const Sizes& s : all_sizes()) {
    SCOPED_TRACE(::testing::Message() << s.rows << " x " << s.in << " -> " << s.out);
    const Tensor x = to(host_values({s.rows, s.in}, 1, DType::bf16), DType::f32);
    const Tensor weight = host_values({s.out, s.in}, 2, DType::f32), bias = host_values({s.out}, 3, DType::f32);
    const Tensor held = in_format(weight, WeightFormat::bf16);
    expect_close(linear(x, held, bias), naive_linear(x, held, bias), 3e-6 * std::sqrt(static_cast<double>(s.in) + 1));
  }
}

TEST(Bf16Weights, FewRowsOfAnyF32) {
  const Tensor x = host_values({3, 300}, 1, DType::f32), weight = host_values({50, 300}, 2, DType::f32);
  const Tensor held = in_format(weight, WeightFormat::bf16);
  expect_close(linear(x, held), linear(to(x, DType::f64), to(held, DType::f64)).to_vector<double>(), 5e-5);
}

TEST(F32Weights, FewRowsMatchTheirEquation) {
  for (const Sizes& s : all_sizes()) {
    if (s.rows > 16) continue;
    const Tensor x = host_values({s.rows, s.in}, 1, DType::f32), weight = host_values({s.out, s.in}, 2, DType::f32);
    const auto expected = linear(to(x, DType::f64), to(weight, DType::f64)).to_vector<double>();
    expect_close(linear(x, weight), expected, 3e-6 * std::sqrt(static_cast<double>(s.in) + 1));
  }
}

TEST(ReducedWeights, SameBitsOnAnyNumberOfThreads) {
  const int before = threads();
  for (const WeightFormat format : {WeightFormat::f32, WeightFormat::bf16}) {
    for (const int64_t rows : {1, 5, 100}) {
      const Tensor x = host_values({rows, 300}, 1, DType::f32);
      const Tensor held = in_format(host_values({700, 300}, 2, DType::f32), format);
      set_threads(1);
      const auto one = linear(x, held).to_vector();
      set_threads(3);
      EXPECT_EQ(linear(x, held).to_vector(), one);
    }
  }
  set_threads(before);
}

}  // namespace
}  // namespace attend
