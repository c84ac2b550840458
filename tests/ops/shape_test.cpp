#include "attend/ops/shape.h"

#include <gtest/gtest.h>

#include "attend/ops/arithmetic.h"
#include "testing/gradients.h"
#include "testing/values.h"

namespace attend {
namespace {

using testing::expect_close;
using testing::expect_error;
using testing::expect_gradients;
using testing::host_values;

using Inputs = std::vector<Tensor>;

Tensor counted(const Shape& shape) {
  std::vector<double> values(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  return tensor(values, shape);
}
bool aliases(const Tensor& a, const Tensor& b) { return a.storage() == b.storage(); }

TEST(Reshape, IsAViewIfStridesAllowAndACopyOtherwise) {
  const Tensor x = counted({2, 3, 4});
  EXPECT_EQ(reshape(x, {6, -1}).shape(), (Shape{6, 4}));
  EXPECT_TRUE(aliases(reshape(x, {4, 6}), x));
  const Tensor swapped = transpose(x, 0, 1);  // [3, 2, 4]
  EXPECT_TRUE(aliases(reshape(swapped, {3, 2, 2, 2}), x));
  EXPECT_TRUE(aliases(reshape(swapped, {3, 1, 2, 4, 1}), x));
  EXPECT_FALSE(aliases(reshape(swapped, {6, 4}), x));
  expect_close(reshape(swapped, {6, 4}), swapped.to_vector<double>(), 0);
  expect_close(reshape(swapped, {3, 2, 2, 2}), swapped.to_vector<double>(), 0);
  expect_close(reshape(transpose(x, 1, 2), {-1}), transpose(x, 1, 2).to_vector<double>(), 0);
  EXPECT_EQ(reshape(slice(x, 0, 1, 2), {3, 4}).to_vector<double>()[0], 12);
  EXPECT_EQ(reshape(zeros({0, 3}), {3, 0, 2}).shape(), (Shape{3, 0, 2}));
  EXPECT_EQ(reshape(full({}, 4), {1, 1}).item(), 4);
  EXPECT_EQ(reshape(expand(full({1, 1}, 4), {2, 3}), {6}).to_vector<double>(), std::vector<double>(6, 4));
}

TEST(Shape, ViewsAliasTheInput) {
  const Tensor x = counted({2, 3, 4});
  EXPECT_TRUE(aliases(transpose(x, 0, 2), x));
  EXPECT_TRUE(aliases(slice(x, 1, 1, 3), x));
  EXPECT_TRUE(aliases(select(x, -1, -1), x));
  EXPECT_TRUE(aliases(unsqueeze(x, 0), x));
  EXPECT_TRUE(aliases(expand(unsqueeze(x, 1), {2, 5, 3, 4}), x));
  EXPECT_TRUE(aliases(contiguous(x), x));
  EXPECT_FALSE(aliases(contiguous(transpose(x, 0, 1)), x));
}

TEST(Shape, Values) {
  const Tensor x = counted({2, 3});
  expect_close(transpose(x, 0, 1), {0, 3, 1, 4, 2, 5}, 0);
  expect_close(slice(x, 1, 1, 3), {1, 2, 4, 5}, 0);
  expect_close(slice(x, 1, -2, -1), {1, 4}, 0);
  EXPECT_EQ(slice(x, 1, 2, 2).shape(), (Shape{2, 0}));
  expect_close(select(x, 0, 1), {3, 4, 5}, 0);
  expect_close(select(x, -1, -3), {0, 3}, 0);
  EXPECT_EQ(unsqueeze(x, -1).shape(), (Shape{2, 3, 1}));
  EXPECT_EQ(unsqueeze(x, 0).shape(), (Shape{1, 2, 3}));
  expect_close(expand(select(x, 0, 0), {2, 3}), {0, 1, 2, 0, 1, 2}, 0);
  expect_close(concat({x, slice(x, 1, 0, 1)}, 1), {0, 1, 2, 0, 3, 4, 5, 3}, 0);
  expect_close(concat({x, zeros({0, 3}, {DType::f64})}, 0), {0, 1, 2, 3, 4, 5}, 0);
  expect_close(stack({x, x}, -1), {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5}, 0);
  EXPECT_EQ(stack({x, x}, 0).shape(), (Shape{2, 2, 3}));
  EXPECT_EQ(concat({arange(2), arange(1)}, 0).to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 0}));
}

TEST(Shape, Gradients) {
  const Tensor x = host_values({2, 3, 4}, 1), y = host_values({2, 1, 4}, 2);
  expect_gradients([](const Inputs& in) { return reshape(in[0], {4, 6}); }, {x});
  expect_gradients([](const Inputs& in) { return reshape(transpose(in[0], 0, 1), {6, 4}); }, {x});
  expect_gradients([](const Inputs& in) { return transpose(in[0], 0, -1); }, {x});
  expect_gradients([](const Inputs& in) { return slice(in[0], 1, 1, 3); }, {x});
  expect_gradients([](const Inputs& in) { return select(in[0], 1, -1); }, {x});
  expect_gradients([](const Inputs& in) { return unsqueeze(in[0], 2); }, {x});
  expect_gradients([](const Inputs& in) { return expand(in[0], {3, 2, 5, 4}); }, {y});
  expect_gradients([](const Inputs& in) { return contiguous(transpose(in[0], 1, 2)); }, {x});
  expect_gradients([](const Inputs& in) { return concat({in[0], in[1], in[0]}, 1); }, {x, y});
  expect_gradients([](const Inputs& in) { return stack({in[0], multiply(in[0], in[0])}, 1); }, {x});
  expect_gradients([](const Inputs& in) { return select(in[0], 0, 0) + select(in[0], 0, 1) * select(in[0], 0, 0); },
                   {x});
}

TEST(Shape, SameBitsOnAnyThreads) {
  const Tensor x = host_values({3, 257, 65}, 1), y = host_values({3, 1, 65}, 2);
  testing::expect_same_bits(
      [](const Inputs& in) {
        const Tensor joined = concat({in[0], expand(in[1], {3, 31, 65}), slice(in[0], 1, 3, 200)}, 1);
        const Tensor turned = contiguous(transpose(joined, 0, 2));
        return stack({turned, reshape(transpose(turned, 0, 2), turned.shape()), multiply(turned, turned)}, -1);
      },
      {x, y});
}

TEST(Shape, ErrorsNameTheMistake) {
  const Tensor x = zeros({2, 3});
  expect_error<ShapeError>([&] { reshape(x, {4, -1}); }, "reshape: cannot reshape [2, 3] to [4, -1]");
  expect_error<ShapeError>([&] { reshape(x, {-1, -1}); }, "reshape: only one size may be -1, got [-1, -1]");
  expect_error<ShapeError>([&] { reshape(x, {5}); }, "reshape: cannot reshape [2, 3] to [5]");
  expect_error<ShapeError>([&] { reshape(x, {-2, -3}); }, "reshape: cannot reshape [2, 3] to [-2, -3]");
  expect_error<ShapeError>([&] { transpose(x, 0, 2); }, "transpose: axis 2 is out of range for shape [2, 3]");
  expect_error<ShapeError>([&] { slice(x, 1, 2, 4); }, "slice: range 2 to 4 is outside axis 1 of shape [2, 3]");
  expect_error<ShapeError>([&] { select(x, 0, 2); }, "select: index 2 is out of range for axis 0 of shape [2, 3]");
  expect_error<ShapeError>([&] { unsqueeze(x, 3); }, "unsqueeze: axis 3 is out of range for shape [2, 3]");
  expect_error<ShapeError>([&] { expand(x, {2, 4}); }, "expand: shape [2, 3] does not broadcast to [2, 4]");
  expect_error<ShapeError>([&] { expand(x, {3}); }, "expand: shape [2, 3] has more axes than [3]");
  expect_error<ShapeError>(
      [&] {
        concat({x, zeros({3, 3})}, 1);
      },
      "concat: shapes [2, 3] and [3, 3] differ outside axis 1");
  expect_error<ShapeError>([&] { concat({x, zeros({2})}, 0); }, "concat: shapes [2, 3] and [2] differ outside axis 0");
  expect_error<ShapeError>([&] { concat({}, 0); }, "concat: expected at least one tensor");
  expect_error<ShapeError>([&] { stack({x, zeros({3, 2})}, 0); }, "stack: shapes [2, 3] and [3, 2] differ");
}

}  // namespace
}  // namespace attend
