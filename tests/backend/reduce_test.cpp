#include <gtest/gtest.h>

#include "attend/base/threads.h"
#include "backend/kernels.h"
#include "testing/values.h"

namespace attend {
namespace {

using testing::host_values;

double sum_of_squares(Rows x) {
  const ConstRows part = x;
  const Tensor total = empty({}, {DType::f64});
  kernels(default_device()).reduce.sum_of_squares(std::span(&part, 1), rows(total));
  return total.item();
}

TEST(SumOfSquares, AccumulatesInDouble) {
  for (const int64_t size : {0, 1, 31, 33, 257, 50000}) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      const Tensor x = host_values({2, size}, 1, dtype);
      double expected = 0;
      for (double value : x.to_vector<double>()) expected += value * value;
      EXPECT_NEAR(sum_of_squares(rows(x)), expected, 1e-12 * (1 + expected));
    }
  }
  // A float would stop growing at 2^24.
  EXPECT_EQ(sum_of_squares(rows(full({20000000}, 1))), 2e7);
}

TEST(SumOfSquares, AddsAllParts) {
  const Tensor a = host_values({70}, 1, DType::f32), b = host_values({3, 5}, 2, DType::f32);
  const std::vector<ConstRows> parts{rows(a), rows(b), rows(a)};
  const Tensor total = empty({}, {DType::f64});
  kernels(default_device()).reduce.sum_of_squares(parts, rows(total));
  EXPECT_NEAR(total.item(), 2 * sum_of_squares(rows(a)) + sum_of_squares(rows(b)), 1e-12);
  kernels(default_device()).reduce.sum_of_squares({}, rows(total));
  EXPECT_EQ(total.item(), 0);
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
  EXPECT_NEAR(sum_of_squares(part), expected, 1e-15);
}

TEST(SumOfSquares, SameBitsOnAnyNumberOfThreads) {
  const int before = threads();
  const Tensor x = host_values({100000}, 1, DType::f32);
  set_threads(1);
  const double alone = sum_of_squares(rows(x));
  set_threads(3);
  EXPECT_EQ(alone, sum_of_squares(rows(x)));
  set_threads(before);
}

}  // namespace
}  // namespace attend
