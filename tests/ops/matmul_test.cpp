#include "attend/ops/matmul.h"

#include <gtest/gtest.h>

#include "attend/ops/shape.h"
#include "testing/gradients.h"
#include "testing/values.h"

namespace attend {
namespace {

using testing::expect_close;
using testing::expect_error;
using testing::expect_gradients;
using testing::expect_same_bits;
using testing::host_values;

using Inputs = std::vector<Tensor>;

TEST(Matmul, BroadcastsLeadingAxes) {
  const Tensor a = host_values({2, 1, 3, 4}, 1), b = host_values({5, 4, 2}, 2);
  const Tensor c = matmul(a, b);
  ASSERT_EQ(c.shape(), (Shape{2, 5, 3, 2}));
  for (int64_t i = 0; i < 2; ++i) {
    for (int64_t j = 0; j < 5; ++j) {
      const Tensor one = matmul(select(select(a, 0, i), 0, 0), select(b, 0, j));
      expect_close(select(select(c, 0, i), 0, j), one.to_vector<double>(), 0);
    }
  }
}

TEST(Matmul, Gradients) {
  const auto f = [](const Inputs& in) { return matmul(in[0], in[1]); };
  expect_gradients(f, {host_values({3, 4}, 1), host_values({4, 2}, 2)});
  expect_gradients(f, {host_values({2, 3, 4}, 1), host_values({4, 2}, 2)});
  expect_gradients(f, {host_values({3, 4}, 1), host_values({2, 4, 2}, 2)});
  expect_gradients(f, {host_values({2, 1, 3, 4}, 1), host_values({3, 4, 2}, 2)});
  expect_gradients([](const Inputs& in) { return matmul(in[0], transpose(in[1], -1, -2)); },
                   {host_values({2, 3, 4}, 1), host_values({2, 5, 4}, 2)});
  expect_gradients([](const Inputs& in) { return matmul(transpose(in[0], 0, 1), in[1]); },
                   {host_values({3, 2, 4}, 1), host_values({4, 3}, 2)});
  expect_gradients([](const Inputs& in) { return matmul(in[0], in[0]); }, {host_values({3, 3}, 1)});
}

TEST(Matmul, SameBitsOnAnyNumberOfThreads) {
  const auto f = [](const Inputs& in) { return matmul(in[0], in[1]); };
  expect_same_bits(f, {host_values({257, 300}, 1, DType::f32), host_values({300, 100}, 2, DType::f32)});
  expect_same_bits(f, {host_values({40, 33, 31}, 1, DType::f32), host_values({40, 31, 65}, 2, DType::f32)});
}

TEST(Matmul, Errors) {
  expect_error<ShapeError>(
      [] {
        matmul(zeros({2, 3}), zeros({2, 3}));
      },
      "matmul: expected a [..., m, k] and b [..., k, n], got [2, 3] and [2, 3]");
  expect_error<ShapeError>(
      [] {
        matmul(zeros({3}), zeros({3, 2}));
      },
      "matmul: expected a [..., m, k] and b [..., k, n], got [3] and [3, 2]");
  expect_error<ShapeError>(
      [] {
        matmul(zeros({2, 2, 3}), zeros({3, 3, 2}));
      },
      "matmul: shapes [2] and [3] do not broadcast");
  expect_error<ShapeError>([] { matmul(zeros({2, 3}), zeros({3, 2}, {DType::f64})); }, "matmul: a is f32 but b is f64");
}

}  // namespace
}  // namespace attend
