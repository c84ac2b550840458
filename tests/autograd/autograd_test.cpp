#include "attend/autograd/autograd.h"

#include <gtest/gtest.h>

#include "attend/ops/arithmetic.h"
#include "attend/ops/reduce.h"
#include "testing/gradients.h"

namespace attend {
namespace {

using testing::expect_error;

Tensor leaf(double value) { return parameter(full({}, value)); }

TEST(Autograd, SumsOverEveryPath) {
  const Tensor x = leaf(3);
  backward(x * x + x * 2.0);  // 2x + 2
  EXPECT_EQ(grad(x).item(), 8);
}

TEST(Autograd, GradientsAccumulateUntilCleared) {
  const Tensor x = leaf(3);
  backward(x * x);
  backward(x * x);
  EXPECT_EQ(grad(x).item(), 12);
  zero_grad(x);
  EXPECT_FALSE(grad(x));
}

TEST(Autograd, NothingIsRecordedWithoutRequiresGrad) {
  const Tensor x = leaf(3);
  EXPECT_FALSE(needs_grad(full({}, 1) * full({}, 2)));
  EXPECT_FALSE(needs_grad(x.detach() * x.detach()));
  const NoGrad no_grad;
  EXPECT_FALSE(needs_grad(x * x));
}

TEST(Autograd, ScopesOfNoGradNest) {
  const Tensor x = leaf(1);
  {
    const NoGrad outer;
    { const NoGrad inner; }
    EXPECT_FALSE(needs_grad(x));
  }
  EXPECT_TRUE(needs_grad(x));
}

TEST(Autograd, UpstreamGradientOfATensor) {
  const Tensor x = parameter(tensor<float>({1, 2, 3}, {3}));
  backward(x * x, tensor<float>({1, 10, 100}, {3}));
  EXPECT_EQ(grad(x).to_vector<float>(), (std::vector<float>{2, 40, 600}));
}

TEST(Autograd, LeavesNeverShareTheirGradients) {
  const Tensor a = leaf(1), b = leaf(2), dy = full({}, 5);
  backward(a + b, dy);
  backward(a * 1.0);
  EXPECT_EQ(grad(a).item(), 6);
  EXPECT_EQ(grad(b).item(), 5);
  EXPECT_EQ(dy.item(), 5);
}

/// Neither the backward pass nor the destructor may recurse: a chain of this length would overflow the stack.
TEST(Autograd, LongChains) {
  const Tensor x = leaf(1);
  Tensor y = x;
  for (int i = 0; i < 200000; ++i) y = scale(y, 1, 0);
  Tensor dropped = y * 2.0;
  dropped = {};
  backward(y);
  EXPECT_EQ(grad(x).item(), 1);
  Tensor unused = x;
  for (int i = 0; i < 200000; ++i) unused = scale(unused, 1, 0);
}

TEST(Autograd, MemoryIsFreedDuringBackward) {
  const Tensor x = parameter(zeros({1 << 16}));
  const size_t before = memory_stats().live_bytes;
  {
    Tensor y = x;
    for (int i = 0; i < 50; ++i) y = y * y;
    backward(sum(y));
  }
  EXPECT_LE(memory_stats().live_bytes, before + (size_t{2} << 18));
}

TEST(Autograd, ErrorsSayWhatWasExpected) {
  const Tensor x = parameter(zeros({2}));
  expect_error<ShapeError>([&] { backward(x * x); }, "backward: a tensor of shape [2] needs an upstream gradient");
  expect_error<ShapeError>([&] { backward(x * x, zeros({3})); },
                           "backward: upstream gradient has shape [3] but the tensor has [2]");
  expect_error<ShapeError>([&] { backward(zeros({})); },
                           "backward: the tensor does not depend on any that requires a gradient");
  expect_error<ShapeError>([&] { backward(x * x, zeros({2}, {.dtype = DType::f64})); },
                           "backward: upstream gradient is f64 but the tensor is f32");
  expect_error<ShapeError>([&] { set_grad(x, zeros({2}, {.dtype = DType::f64})); }, "set_grad: expected f32, got f64");
  const Tensor y = sum(x);
  backward(y);
  expect_error<ShapeError>([&] { backward(y); }, "backward: the graph of sum was freed by an earlier backward()");
  Tensor ids = arange(3);
  expect_error<ShapeError>([&] { set_requires_grad(ids); }, "set_requires_grad: expected a floating tensor, got i64");
}

}  // namespace
}  // namespace attend
