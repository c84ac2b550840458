#include "autograd/leaf_watch.h"

#include <gtest/gtest.h>

#include "attend/ops/arithmetic.h"
#include "attend/ops/reduce.h"
#include "attend/tensor/creation.h"

namespace attend {
namespace {

TEST(LeafWatch, ReportsALeafWhenItsGradientIsComplete) {
  const Tensor shared = parameter(ones({2})), late = parameter(ones({2})), early = parameter(ones({2}));
  const Tensor inner = shared * late;
  const Tensor y = sum(inner * shared * early);
  std::vector<const Variable*> order;
  std::vector<float> at_report;
  {
    const LeafWatch watch([&](const Variable* leaf) {
      order.push_back(leaf);
      if (leaf == shared.variable().get()) at_report = grad(shared).to_vector<float>();
    });
    backward(y);
  }
  ASSERT_EQ(order.size(), 3u);
  EXPECT_EQ(order[0], early.variable().get());
  EXPECT_EQ(at_report, grad(shared).to_vector<float>());
  backward(sum(shared * late));  // without a watch, nothing is reported
  EXPECT_EQ(order.size(), 3u);
}

TEST(LeafWatch, RecomputedNodesReportNothing) {
  const Tensor x = parameter(ones({2}));
  int reports = 0;
  const LeafWatch watch([&](const Variable*) { ++reports; });
  Tensor inner;
  {
    const NoGrad no_grad;
    inner = x * x;
  }
  backward(sum(recomputed(inner, [x] { return x * x; })));
  EXPECT_EQ(reports, 0);
  EXPECT_EQ(grad(x).to_vector<float>(), (std::vector<float>{2, 2}));
}

}  // namespace
}  // namespace attend
