#include "attend/ops/softmax.h"

#include <gtest/gtest.h>

#include <limits>

#include "testing/gradients.h"

namespace attend {
namespace {

using namespace testing;

constexpr double kInf = std::numeric_limits<double>::infinity();

std::vector<double> naive_softmax(const std::vector<double>& x, int64_t cols, bool logarithm) {
  std::vector<double> y(x.size());
  for (size_t row = 0; row < x.size(); row += static_cast<size_t>(cols)) {
    const auto begin = x.begin() + static_cast<int64_t>(row);
    const double max = *std::max_element(begin, begin + cols);
    double sum = 0;
    for (int64_t i = 0; i < cols; ++i) sum += std::exp(begin[i] - max);
    for (int64_t i = 0; i < cols; ++i) {
      y[row + static_cast<size_t>(i)] = logarithm ? begin[i] - max - std::log(sum) : std::exp(begin[i] - max) / sum;
    }
  }
  return y;
}

TEST(Softmax, MatchesNaiveInBothTypes) {
  for (int64_t cols : {1, 31, 33, 257}) {
    const Tensor x = uniform({7, cols}, -9, 9, {1, static_cast<uint64_t>(cols)});
    const auto reference = x.to_vector<double>();
    expect_close(softmax(x), naive_softmax(reference, cols, false), 3e-7);
    expect_close(log_softmax(x), naive_softmax(reference, cols, true), 3e-6);
    expect_close(softmax(to(x, DType::f64)), naive_softmax(reference, cols, false), 1e-14);
    expect_close(log_softmax(to(x, DType::f64)), naive_softmax(reference, cols, true), 1e-13);
  }
}

TEST(Softmax, TermsGiveTheSameBitsOneByOne) {
  for (int64_t cols : {1, 31, 33, 257}) {
    const Tensor x = uniform({3, 2, cols}, -9, 9, {1, static_cast<uint64_t>(cols)});
    const Tensor terms = log_softmax_terms(x);
    ASSERT_EQ(terms.shape(), (Shape{3, 2, 2}));
    const auto values = x.to_vector<float>(), subtracted = terms.to_vector<float>();
    std::vector<float> logs;
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t row = i / static_cast<size_t>(cols);
      logs.push_back(values[i] - subtracted[2 * row] - subtracted[2 * row + 1]);
    }
    EXPECT_EQ(logs, log_softmax(x).to_vector<float>());
  }
}

TEST(Softmax, Gradients) {
  for (int64_t cols : {1, 31, 33}) {
    expect_gradients([](const auto& in) { return softmax(in[0]); }, {random_f64({3, cols}, 2)});
    expect_gradients([](const auto& in) { return log_softmax(in[0]); }, {random_f64({3, cols}, 2)});
  }
}

TEST(Softmax, SameBits) {
  expect_same_bits([](const auto& in) { return softmax(in[0]); }, {random_f32({257, 257}, 2)});
  expect_same_bits([](const auto& in) { return log_softmax(in[0]); }, {random_f32({257, 257}, 2)});
}

TEST(Softmax, MinusInfinityWeighsNothingAndAnEmptyRowIsZero) {
  for (DType dtype : {DType::f32, DType::f64}) {
    Tensor x = parameter(to(tensor({-kInf, 0.0, -kInf, 0.0, -kInf, -kInf, -kInf, -kInf}, {2, 4}), dtype));
    const Tensor y = softmax(x);
    EXPECT_EQ(y.to_vector<double>(), (std::vector<double>{0, 0.5, 0, 0.5, 0, 0, 0, 0}));
    backward(y, ones({2, 4}, {dtype}));
    EXPECT_EQ(grad(x).to_vector<double>(), std::vector<double>(8, 0));
    const auto logs = log_softmax(x).to_vector<double>();
    EXPECT_EQ(logs[0], -kInf);
    EXPECT_NEAR(logs[1], -std::log(2.0), 1e-6);
    EXPECT_EQ(logs[5], -kInf);
  }
}

TEST(Softmax, HugeScoresDoNotOverflowAndNaNPropagates) {
  EXPECT_EQ(softmax(tensor({3e38f, -3e38f}, {2})).to_vector(), (std::vector<float>{1, 0}));
  for (DType dtype : {DType::f32, DType::f64}) {
    const auto y = softmax(to(tensor({1.0, std::nan(""), 2.0}, {3}), dtype)).to_vector<double>();
    for (double value : y) EXPECT_TRUE(std::isnan(value));
  }
}

TEST(Softmax, EmptyAndWrong) {
  EXPECT_EQ(softmax(empty({0, 5})).shape(), (Shape{0, 5}));
  expect_error<ShapeError>([] { softmax(empty({5, 0})); }, "softmax: last axis must not be empty, got shape [5, 0]");
  expect_error<ShapeError>(
      [] {
        log_softmax(empty({5, 0}));
      },
      "log_softmax: last axis must not be empty, got shape [5, 0]");
}

}  // namespace
}  // namespace attend
