#pragma once

#include <gtest/gtest.h>

#include <limits>

#include "attend/backend/devices.h"
#include "ops/attention_16bit.h"

// Checks of attention in bf16 and f16 on a GPU.
namespace attend::testing {

inline constexpr Device kGpu{Device::Kind::cuda, 0};
inline const double kInf = std::numeric_limits<double>::infinity(), kNaN = std::numeric_limits<double>::quiet_NaN();

class Attention16Bit : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (cuda_devices() == 0) GTEST_SKIP() << cuda_problem();
    if (devices().back().name == "Pretend GPU") GTEST_SKIP() << "other tests of this run have opened the pretend GPU";
  }
};
inline double largest(const std::vector<double>& values) {
  double most = 0;
  for (double x : values) most = std::max(most, std::abs(x));
  return most;
}

/// The largest difference must be at most twice that of naive code.
inline void expect_like_naive(const char* name, const std::vector<double>& got, const std::vector<double>& expected,
                              const std::vector<double>& naive, double unit) {
  ASSERT_EQ(got.size(), expected.size()) << name;
  ASSERT_EQ(naive.size(), expected.size()) << name;
  double error = 0, allowed = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_FALSE(std::isnan(got[i])) << name << " " << i;
    error = std::max(error, std::abs(got[i] - expected[i]));
    allowed = std::max(allowed, std::abs(naive[i] - expected[i]));
  }
  EXPECT_LE(error, 2 * std::max(allowed, unit * largest(expected)) + 1e-5) << name;
}

/// Compares all results with those of f64 on the CPU.
inline void expect_accurate(const HalfCase& c) {
  const HalfInputs in = half_inputs(c);
  const Rounding round(c.dtype);
  const HalfResults got = run_attention(in, c.options, c.dtype, kGpu);
  const HalfResults exact = run_attention(in, c.options, DType::f64, kCpu);
  const HalfResults naive = naive_attention(in, c.options, round);
  ASSERT_EQ(got.lse.size(), exact.lse.size());
  for (size_t i = 0; i < got.lse.size(); ++i) {
    if (std::isinf(exact.lse[i]))
      EXPECT_EQ(got.lse[i], exact.lse[i]);
    else
      EXPECT_NEAR(got.lse[i], exact.lse[i], 2e-5) << i;
  }
  expect_like_naive("y", got.y, exact.y, naive.y, round.unit());
  expect_like_naive("dq", got.dq, exact.dq, naive.dq, round.unit());
  expect_like_naive("dk", got.dk, exact.dk, naive.dk, round.unit());
  expect_like_naive("dv", got.dv, exact.dv, naive.dv, round.unit());
  expect_like_naive("dbias", got.dbias, exact.dbias, naive.dbias, round.unit());
}

/// All results but dbias.
inline void expect_same_bits(const HalfResults& a, const HalfResults& b) {
  EXPECT_EQ(a.y, b.y);
  EXPECT_EQ(a.lse, b.lse);
  EXPECT_EQ(a.dq, b.dq);
  EXPECT_EQ(a.dk, b.dk);
  EXPECT_EQ(a.dv, b.dv);
}

/// Sets rows [begin, end) of the length axis to values that are not finite.
inline void poison(const Tensor& x, int64_t begin, int64_t end) {
  const int64_t length = x.dim(2), dim = x.dim(3);
  for (int64_t slice = 0; slice < x.dim(0) * x.dim(1); ++slice) {
    for (int64_t n = begin * dim; n < end * dim; ++n)
      set_element(x, slice * length * dim + n, n % 3 == 0 ? kNaN : n % 3 == 1 ? kInf : -kInf);
  }
}

}  // namespace attend::testing
