#include "attend/ops/arithmetic.h"

#include <gtest/gtest.h>

#include "testing/gradients.h"
#include "testing/values.h"

namespace attend {
namespace {

using testing::expect_close;
using testing::expect_error;
using testing::expect_gradients;
using testing::expect_same_bits;
using testing::host_values;

TEST(Arithmetic, BroadcastsLikeNumpy) {
  const Tensor a = tensor({1.0, 2.0, 3.0}, {3, 1}), b = tensor({10.0, 20.0}, {2});
  EXPECT_EQ((a + b).shape(), (Shape{3, 2}));
  expect_close(a + b, {11, 21, 12, 22, 13, 23}, 0);
  expect_close(a - b, {-9, -19, -8, -18, -7, -17}, 0);
  expect_close(a * b, {10, 20, 20, 40, 30, 60}, 0);
  expect_close(b / a, {10, 20, 5, 10, 10.0 / 3, 20.0 / 3}, 1e-15);
  expect_close(scale(a, 2, 1), {3, 5, 7}, 0);
  expect_close(2 * b, {20, 40}, 0);
}

TEST(Arithmetic, EmptyAndScalar) {
  const Tensor none = zeros({0, 3}), scalar = full({}, 2);
  EXPECT_EQ((none + scalar).shape(), (Shape{0, 3}));
  EXPECT_EQ((scalar * scalar).item(), 4);
}

TEST(Arithmetic, GradientsHaveTheOperandsShapes) {
  const Tensor a = host_values({2, 1, 3}, 1), b = scale(host_values({4, 1}, 2), 0.25, 2), c = host_values({}, 3);
  for (const auto& op : {add, subtract, multiply, divide}) {
    expect_gradients([&](const std::vector<Tensor>& in) { return op(in[0], in[1]); }, {a, b});
    expect_gradients([&](const std::vector<Tensor>& in) { return op(in[0], in[1]); }, {c, b});
    expect_same_bits([&](const std::vector<Tensor>& in) { return op(in[0], in[1]); }, {a, b});
  }
  expect_gradients([](const std::vector<Tensor>& in) { return scale(in[0], -3, 5); }, {a});
  expect_gradients([](const std::vector<Tensor>& in) { return in[0] * in[0]; }, {a});
}

TEST(Arithmetic, ExpAndLog) {
  const Tensor x = scale(host_values({3, 31}, 4), 1, 2);
  std::vector<double> powers, logs;
  for (double value : x.to_vector<double>()) {
    powers.push_back(std::exp(value));
    logs.push_back(std::log(value));
  }
  expect_close(exp(x), powers, 1e-13);
  expect_close(log(x), logs, 1e-13);
  expect_close(exp(to(x, DType::f32)), powers, 1e-5);
  expect_gradients([](const std::vector<Tensor>& in) { return exp(in[0]); }, {x});
  expect_gradients([](const std::vector<Tensor>& in) { return log(in[0]); }, {x});
}

TEST(Arithmetic, ErrorsNameTheMistake) {
  expect_error<ShapeError>([] { add(zeros({2, 3}), zeros({2})); }, "add: shapes [2, 3] and [2] do not broadcast");
  expect_error<ShapeError>([] { multiply(zeros({2}), zeros({2}, {DType::f64})); }, "multiply: a is f32 but b is f64");
  expect_error<ShapeError>([] { divide(arange(2), zeros({2})); }, "divide: a must be f32 or f64, got i64");
  expect_error<ShapeError>([] { subtract({}, zeros({2})); }, "subtract: a is empty");
}

}  // namespace
}  // namespace attend
