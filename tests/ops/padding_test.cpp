#include "attend/ops/padding.h"

#include <gtest/gtest.h>

#include "testing/gradients.h"

namespace attend {
namespace {

TEST(ZeroPadding, ClearsAnyValue) {
  Tensor x = full({2, 3, 2}, 1);
  for (const int64_t place : {4, 11}) testing::set_element(x, place, std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(zero_padding(x, tensor<int64_t>({2, 0}, {2})).to_vector<float>(),
            (std::vector<float>{1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(ZeroPadding, GradientsAndBits) {
  const Tensor lengths = tensor<int64_t>({3, 1}, {2});
  const auto f = [&](const std::vector<Tensor>& in) { return zero_padding(in[0], lengths); };
  testing::expect_gradients(f, {testing::random_f64({2, 3, 4}, 1)});
  testing::expect_same_bits(f, {testing::random_f32({2, 3, 4}, 1)});
}

TEST(ZeroPadding, Errors) {
  testing::expect_error<ShapeError>(
      [] {
        zero_padding(zeros({2, 3}), tensor<int64_t>({1, 4}, {2}));
      },
      "zero_padding: a length of 4 is outside 0 … 3");
  testing::expect_error<ShapeError>(
      [] {
        zero_padding(zeros({2, 3}), zeros({2}));
      },
      "zero_padding: lengths must be i64 [2], got f32 [2]");
}

}  // namespace
}  // namespace attend
