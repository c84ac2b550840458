#include "attend/ops/embedding.h"

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

Tensor ids(std::initializer_list<int64_t> values, const Shape& shape) { return tensor(values, shape); }

TEST(Embedding, TakesRows) {
  const Tensor weight = tensor({0.0, 1.0, 10.0, 11.0, 20.0, 21.0}, {3, 2});
  const Tensor y = embedding(ids({2, 0, 2, 1}, {2, 2}), weight);
  EXPECT_EQ(y.shape(), (Shape{2, 2, 2}));
  expect_close(y, {20, 21, 0, 1, 20, 21, 10, 11}, 0);
  expect_close(embedding(transpose(ids({2, 0, 2, 1}, {2, 2}), 0, 1), weight), {20, 21, 20, 21, 0, 1, 10, 11}, 0);
  EXPECT_EQ(embedding(zeros({0, 3}, {DType::i64}), weight).shape(), (Shape{0, 3, 2}));
  EXPECT_EQ(embedding(zeros({}, {DType::i64}), weight).shape(), (Shape{2}));
}

TEST(Embedding, RepeatedIdsAddUp) {
  const Tensor index = ids({3, 0, 3, 3, 1}, {5});
  expect_gradients([&](const std::vector<Tensor>& in) { return embedding(index, in[0]); }, {host_values({4, 3}, 1)});
}

TEST(Embedding, SameBitsOnAnyNumberOfThreads) {
  std::vector<int64_t> values(500);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int64_t>(philox(1, i, 0)[0] % 17);
  const Tensor index = tensor(values, {500});
  expect_same_bits([&](const std::vector<Tensor>& in) { return embedding(index, in[0]); },
                   {host_values({17, 300}, 2, DType::f32)});
}

TEST(Embedding, Errors) {
  expect_error<ShapeError>([] { embedding(ids({0, 3}, {2}), zeros({3, 2})); }, "embedding: index 3 is outside 0 to 2");
  expect_error<ShapeError>([] { embedding(ids({-1}, {1}), zeros({3, 2})); }, "embedding: index -1 is outside 0 to 2");
  expect_error<ShapeError>([] { embedding(zeros({2}), zeros({3, 2})); }, "embedding: ids must be i64, got f32");
  expect_error<ShapeError>([] { embedding(ids({0}, {1}), zeros({3})); },
                           "embedding: weight must be [vocab_size, dim], got shape [3]");
}

TEST(Gather, TakesFromTheLastAxis) {
  const Tensor x = tensor({0.0, 1.0, 2.0, 3.0, 4.0, 5.0}, {2, 3});
  expect_close(gather(x, ids({2, 2, 0, 1}, {2, 2})), {2, 2, 3, 4}, 0);
  EXPECT_EQ(gather(x, zeros({2, 0}, {DType::i64})).shape(), (Shape{2, 0}));
}

TEST(Gather, Gradients) {
  const Tensor index = ids({2, 2, 0, 1, 3, 3}, {2, 3});
  expect_gradients([&](const std::vector<Tensor>& in) { return gather(in[0], index); }, {host_values({2, 4}, 1)});
  expect_gradients([&](const std::vector<Tensor>& in) { return gather(transpose(in[0], 0, 1), index); },
                   {host_values({4, 2}, 1)});
  expect_same_bits([&](const std::vector<Tensor>& in) { return gather(in[0], index); }, {host_values({2, 4}, 1)});
}

TEST(Gather, Errors) {
  expect_error<ShapeError>([] { gather(zeros({2, 3}), ids({0, 3}, {2, 1})); }, "gather: index 3 is outside 0 to 2");
  expect_error<ShapeError>(
      [] {
        gather(zeros({2, 3}), ids({0}, {1, 1}));
      },
      "gather: index must have x's leading shape, got x [2, 3] and index [1, 1]");
}

}  // namespace
}  // namespace attend
