#include "attend/autograd/autograd.h"

#include <gtest/gtest.h>

#include "testing/gradients.h"

namespace attend {
namespace {

/// An op whose backward returns gradients(dy).
Tensor pass(const std::vector<Tensor>& inputs, std::function<Gradients(const Tensor&)> gradients) {
  return record("pass", inputs[0].clone(), inputs, std::move(gradients));
}

TEST(GradientOwnership, TheCallersGradientStaysTheCallers) {
  Tensor x = parameter(zeros({2}));
  const Tensor dy = ones({2});
  for (int i = 0; i < 2; ++i) backward(pass({x}, [](const Tensor& d) -> Gradients { return {d}; }), dy);
  EXPECT_EQ(grad(x).to_vector(), (std::vector<float>{2, 2}));
  EXPECT_EQ(dy.to_vector(), (std::vector<float>{1, 1}));
  backward(x, dy);  // a leaf itself
  EXPECT_EQ(grad(x).to_vector(), (std::vector<float>{3, 3}));
  zero_grad(x);
  backward(x, dy);
  EXPECT_NE(grad(x).raw(), dy.raw());
}

TEST(GradientOwnership, LeavesThatGetTheSameGradientDoNotShareIt) {
  Tensor a = parameter(zeros({2})), b = parameter(zeros({2}));
  const auto both = [](const Tensor& d) -> Gradients {
    const Tensor copy = d.clone();
    return {copy, copy};
  };
  backward(pass({a, b}, both), ones({2}));
  EXPECT_NE(grad(a).raw(), grad(b).raw());
  backward(pass({a}, [](const Tensor& d) -> Gradients { return {d}; }), ones({2}));
  EXPECT_EQ(grad(a).to_vector(), (std::vector<float>{2, 2}));
  EXPECT_EQ(grad(b).to_vector(), (std::vector<float>{1, 1}));
}

TEST(GradientOwnership, AnUnsharedGradientIsKeptWithoutACopy) {
  Tensor x = parameter(zeros({2}));
  const void* made = nullptr;
  backward(pass({x},
                [&](const Tensor& d) -> Gradients {
                  Tensor fresh = d.clone();
                  made = fresh.raw();
                  return {fresh};
                }),
           ones({2}));
  EXPECT_EQ(grad(x).raw(), made);
}

TEST(GradientOwnership, BroadcastGradientsBecomeDense) {
  Tensor x = parameter(zeros({3}));
  backward(pass({x}, [](const Tensor&) -> Gradients { return {full({1}, 5).as_strided({3}, {0}, 0)}; }), ones({3}));
  EXPECT_TRUE(grad(x).is_contiguous());
  EXPECT_EQ(grad(x).to_vector(), (std::vector<float>{5, 5, 5}));
}

TEST(GradientOwnership, PathsThatMeetAdd) {
  Tensor x = parameter(ones({2}));
  const Tensor middle = pass({x}, [](const Tensor& d) -> Gradients { return {d}; });
  const Tensor y = pass({middle, middle}, [](const Tensor& d) -> Gradients { return {d, d}; });
  backward(y, ones({2}));
  EXPECT_EQ(grad(x).to_vector(), (std::vector<float>{2, 2}));
}

}  // namespace
}  // namespace attend
