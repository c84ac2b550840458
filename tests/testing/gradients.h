#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "attend/autograd/autograd.h"
#include "attend/base/threads.h"
#include "attend/tensor/creation.h"
#include "testing/values.h"

namespace attend::testing {

using TensorFunction = std::function<Tensor(const std::vector<Tensor>&)>;

/// Pseudo-random f64 values in [-1, 1), determined by the seed.
inline Tensor random_f64(const Shape& shape, uint64_t seed) {
  return uniform(shape, -1, 1, {seed, 0}, {.dtype = DType::f64});
}
inline Tensor random_f32(const Shape& shape, uint64_t seed) { return uniform(shape, -1, 1, {seed, 0}); }

/// Σ y · w with fixed pseudo-random w: a scalar whose gradient exercises every output.
inline double weigh(const Tensor& y) {
  const auto values = y.to_vector<double>();
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) sum += values[i] * std::sin(1.0 + 0.7 * static_cast<double>(i));
  return sum;
}
inline Tensor weights_like(const Tensor& y) {
  std::vector<double> w(static_cast<size_t>(y.numel()));
  for (size_t i = 0; i < w.size(); ++i) w[i] = std::sin(1.0 + 0.7 * static_cast<double>(i));
  return to(tensor(w, y.shape()), y.dtype());
}

/// Compares the gradient of every input (all f64) with central differences.
inline void expect_gradients(const TensorFunction& f, const std::vector<Tensor>& inputs, double tolerance = 1e-6) {
  std::vector<Tensor> leaves;
  for (const Tensor& input : inputs) leaves.push_back(parameter(input.clone()));
  const Tensor y = f(leaves);
  backward(y, weights_like(y));
  const double step = 1e-5;
  for (size_t n = 0; n < inputs.size(); ++n) {
    const Tensor computed = grad(leaves[n]);
    ASSERT_TRUE(computed) << "input " << n << " got no gradient";
    const auto got = computed.to_vector<double>();
    for (int64_t i = 0; i < inputs[n].numel(); ++i) {
      std::vector<Tensor> moved;
      for (const Tensor& input : inputs) moved.push_back(input.clone());
      std::vector<double> values = inputs[n].to_vector<double>();
      double& value = values[static_cast<size_t>(i)];
      const double before = value;
      const auto moved_to = [&](double place) {
        value = place;
        copy_values(tensor(values, inputs[n].shape()), moved[n]);
        return weigh(f(moved));
      };
      const double up = moved_to(before + step), down = moved_to(before - step);
      const double expected = (up - down) / (2 * step);
      ASSERT_NEAR(got[static_cast<size_t>(i)], expected, tolerance * std::max(1.0, std::abs(expected)))
          << "input " << n << ", element " << i;
    }
  }
}

/// Expects forward and backward to give the same bits with 1 and 2 threads, and when repeated.
inline void expect_same_bits(const TensorFunction& f, const std::vector<Tensor>& inputs) {
  const int before = threads();
  std::vector<std::vector<double>> first;
  for (int run = 0; run < 4; ++run) {
    set_threads(run % 2 + 1);
    std::vector<Tensor> leaves;
    for (const Tensor& input : inputs) leaves.push_back(parameter(input.clone()));
    const Tensor y = f(leaves);
    backward(y, weights_like(y));
    std::vector<std::vector<double>> results{y.to_vector<double>()};
    for (const Tensor& leaf : leaves)
      results.push_back(grad(leaf) ? grad(leaf).to_vector<double>() : std::vector<double>{});
    if (run == 0)
      first = results;
    else
      EXPECT_EQ(first, results) << "run " << run;
  }
  set_threads(before);
}

inline void expect_close(const Tensor& got, const std::vector<double>& expected, double tolerance) {
  const auto values = got.to_vector<double>();
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], expected[i], tolerance) << "element " << i;
}

/// Runs f and checks that it throws E with exactly this message.
template <class E, class F>
void expect_error(F&& f, const std::string& message) {
  try {
    f();
    ADD_FAILURE() << "nothing was thrown; expected: " << message;
  } catch (const E& error) {
    EXPECT_EQ(error.what(), message);
  }
}

}  // namespace attend::testing
