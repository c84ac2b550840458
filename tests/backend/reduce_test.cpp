#include <gtest/gtest.h>

#include "attend/base/threads.h"
#include "backend/kernels.h"
#include "testing/values.h"

namespace attend {
namespace {

using testing::host_values;

TEST(SumOfSquares, AccumulatesInDouble) {
  for (const int64_t size : {0, 1, 31, 33, 257, 50000}) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      const Tensor x = host_values({2, size}, 1, dtype);
      double expected = 0;
      for (double value : x.to_vector<double>()) expected += value * value;
      EXPECT_NEAR(kernels(kCpu).reduce.sum_of_squares(rows(x)), expected, 1e-12 * (1 + expected));
    }
  }
  // A float would stop growing at 2^24.
  EXPECT_EQ(kernels(kCpu).reduce.sum_of_squares(rows(full({20000000}, 1))), 2e7);
}

TEST(SumOfSquares, RowsMayLieApart) {
  const Tensor x = host_values({4, 10}, 1);
  Rows part = rows(x);
  part.cols = 3;
  double expected = 0;
  const testing::Reader value(x);
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t j = 0; j < 3; ++j) expected += value(i, j) * value(i, j);
  }
  EXPECT_NEAR(kernels(kCpu).reduce.sum_of_squares(part), expected, 1e-15);
}

TEST(SumOfSquares, SameBitsOnAnyNumberOfThreads) {
  const int before = threads();
  const Tensor x = host_values({100000}, 1, DType::f32);
  set_threads(1);
  const double alone = kernels(kCpu).reduce.sum_of_squares(rows(x));
  set_threads(3);
  EXPECT_EQ(alone, kernels(kCpu).reduce.sum_of_squares(rows(x)));
  set_threads(before);
}

}  // namespace
}  // namespace attend
