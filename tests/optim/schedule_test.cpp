#include "attend/optim/schedule.h"

#include <cmath>

#include "testing/gradients.h"

namespace attend {
namespace {

using testing::expect_error;

TEST(Schedule, ConstantAfterWarmup) {
  const Schedule schedule{.lr = 0.2, .warmup = 4};
  EXPECT_DOUBLE_EQ(schedule.at(1), 0.05);
  EXPECT_DOUBLE_EQ(schedule.at(4), 0.2);
  EXPECT_DOUBLE_EQ(schedule.at(1000), 0.2);
}

TEST(Schedule, LinearFallsToItsEnd) {
  const Schedule schedule{.kind = Schedule::Kind::linear, .lr = 1, .lr_end = 0.2, .warmup = 10, .total = 30};
  EXPECT_DOUBLE_EQ(schedule.at(5), 0.5);
  EXPECT_DOUBLE_EQ(schedule.at(10), 1);
  EXPECT_DOUBLE_EQ(schedule.at(20), 0.6);
  EXPECT_DOUBLE_EQ(schedule.at(30), 0.2);
  EXPECT_DOUBLE_EQ(schedule.at(99), 0.2);
}

TEST(Schedule, CosineFallsToItsEnd) {
  const Schedule schedule{.kind = Schedule::Kind::cosine, .lr = 1, .warmup = 10, .total = 30};
  EXPECT_DOUBLE_EQ(schedule.at(10), 1);
  EXPECT_NEAR(schedule.at(15), 0.5 * (1 + std::sqrt(0.5)), 1e-12);
  EXPECT_NEAR(schedule.at(20), 0.5, 1e-12);
  EXPECT_NEAR(schedule.at(30), 0, 1e-12);
}

TEST(Schedule, NoamPeaksAtWarmup) {
  const Schedule schedule = noam_schedule({.dim = 64, .warmup = 100, .factor = 2});
  EXPECT_NEAR(schedule.at(100), 2.0 / 8 / 10, 1e-12);
  EXPECT_NEAR(schedule.at(50), 2.0 / 8 / 10 / 2, 1e-12);
  EXPECT_NEAR(schedule.at(400), 2.0 / 8 / 20, 1e-12);
}

TEST(Schedule, Errors) {
  expect_error<ShapeError>([] { Schedule{}.at(0); }, "schedule: steps are counted from 1, got 0");
  expect_error<ShapeError>([] { (Schedule{.kind = Schedule::Kind::linear, .warmup = 5, .total = 5}).at(5); },
                           "schedule: total must be larger than warmup, got 5 and 5");
  expect_error<ShapeError>([] { (Schedule{.kind = Schedule::Kind::noam}).at(5); },
                           "schedule: noam needs positive dim and warmup, got 0 and 0");
}

}  // namespace
}  // namespace attend
