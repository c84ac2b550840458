#include "attend/ops/activation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/unary.h"
#include "testing/gradients.h"

namespace attend {
namespace {

using testing::expect_error;
using testing::expect_gradients;
using testing::expect_same_bits;

struct Case {
  const char* name;
  UnaryKind kind;
  long double (*value)(long double);
  long double (*slope)(long double);
};

long double sigma(long double x) { return 1 / (1 + std::exp(-x)); }
long double phi(long double x) { return std::erfc(-x / std::sqrt(2.0L)) / 2; }
long double phi_density(long double x) { return std::exp(-x * x / 2) * 0.398942280401432677939946L; }
long double tanh_gate(long double x) {
  return sigma(2 * std::sqrt(2 / 3.14159265358979323846L) * (x + 0.044715L * x * x * x));
}

const Case kCases[] = {
    {"relu", UnaryKind::relu, [](long double x) { return x > 0 ? x : 0.0L; },
     [](long double x) { return x > 0 ? 1.0L : 0.0L; }},
    {"gelu", UnaryKind::gelu, [](long double x) { return x * phi(x); },
     [](long double x) { return phi(x) + x * phi_density(x); }},
    {"gelu_tanh", UnaryKind::gelu_tanh, [](long double x) { return x * tanh_gate(x); },
     [](long double x) {
       const long double s = tanh_gate(x);
       return s + x * s * (1 - s) * 2 * std::sqrt(2 / 3.14159265358979323846L) * (1 + 3 * 0.044715L * x * x);
     }},
    {"silu", UnaryKind::silu, [](long double x) { return x * sigma(x); },
     [](long double x) { return sigma(x) * (1 + x * sigma(-x)); }},
    {"tanh", UnaryKind::tanh, [](long double x) { return std::tanh(x); },
     [](long double x) { return 1 / std::cosh(x) / std::cosh(x); }},
    {"sigmoid", UnaryKind::sigmoid, [](long double x) { return sigma(x); },
     [](long double x) { return sigma(x) * sigma(-x); }},
    {"exp", UnaryKind::exp, [](long double x) { return std::exp(x); }, [](long double x) { return std::exp(x); }},
    {"log", UnaryKind::log, [](long double x) { return std::log(x); }, [](long double x) { return 1 / x; }},
};

/// Points that cover every branch: dense near 0, sparse towards the tails.
template <class T>
std::vector<T> points(UnaryKind kind) {
  std::vector<T> result;
  for (int i = -6000; i <= 6000; ++i) result.push_back(static_cast<T>(i * 0.002 + 1e-5 * i * std::abs(i) * 0.05));
  for (int e = -40; e < 3; ++e) {
    for (double m : {1.0, 1.3, 1.9}) {
      result.push_back(static_cast<T>(std::ldexp(m, e)));
      result.push_back(static_cast<T>(-std::ldexp(m, e)));
    }
  }
  if (kind == UnaryKind::log) {
    std::erase_if(result, [](T x) { return x <= 0; });
    for (double x : {1e-44, 1e-39, 1e-30, 1e30, 3e38}) result.push_back(static_cast<T>(x));
  }
  return result;
}

/// The largest error in units in the last place of the result, or of `floor` if that is larger.
template <class T>
double worst_ulp(const std::vector<T>& got, const std::vector<T>& x, long double (*f)(long double), long double floor) {
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const long double expected = f(static_cast<long double>(x[i]));
    if (std::isinf(static_cast<T>(expected))) {
      EXPECT_EQ(got[i], static_cast<T>(expected));
      continue;
    }
    const long double size = std::max(std::abs(expected), floor);
    const auto error = static_cast<double>(std::abs(static_cast<long double>(got[i]) - expected) / size);
    worst = std::max(worst, error / static_cast<double>(std::numeric_limits<T>::epsilon()));
  }
  return worst;
}

template <class T>
void check_accuracy(const Case& c, double value_ulp, double slope_ulp) {
  const std::vector<T> x = points<T>(c.kind);
  Tensor in = parameter(tensor(x, {static_cast<int64_t>(x.size())}));
  const Tensor y = unary(c.kind, c.name, in);
  // In the tails, rounding the argument of e^x costs digits, so errors of gelu_tanh and of gelu in double are relative
  // to at least 0.01. Slopes that cross 0 or subtract from 1 are accurate relative to 1. All others are accurate down
  // to the smallest normal numbers.
  const bool loose = c.kind == UnaryKind::gelu_tanh || (c.kind == UnaryKind::gelu && sizeof(T) == 8);
  const long double tiny = 1e-30L;
  EXPECT_LE(worst_ulp(y.to_vector<T>(), x, c.value, loose ? 0.01L : tiny), value_ulp) << c.name;
  backward(y, ones(y.shape(), {y.dtype()}));
  const bool absolute = c.kind != UnaryKind::exp && c.kind != UnaryKind::log;
  EXPECT_LE(worst_ulp(grad(in).template to_vector<T>(), x, c.slope, absolute ? 1 : tiny), slope_ulp) << c.name;
}

TEST(Activation, FloatIsWithinAFewUlpEverywhere) {
  for (const Case& c : kCases) check_accuracy<float>(c, 6, 6);
}

TEST(Activation, DoubleIsAccurateTo1e14) {
  for (const Case& c : kCases) check_accuracy<double>(c, 45, 45);
}

TEST(Activation, Gradients) {
  for (const Case& c : kCases) {
    for (int64_t size : {1, 31, 33}) {
      Tensor x = testing::random_f64({size}, 3);
      std::vector<double> values = x.to_vector<double>();
      for (double& value : values) value = c.kind == UnaryKind::log ? value + 2 : 3 * value;
      x = tensor(values, {size});
      expect_gradients([&](const auto& in) { return unary(c.kind, c.name, in[0]); }, {x});
    }
  }
}

TEST(Activation, SameBitsOnAnyThreadsAndAtAnyPosition) {
  for (const Case& c : kCases) {
    const Tensor x = uniform({257, 257}, c.kind == UnaryKind::log ? 0.1 : -5, 5, {5, 0});
    expect_same_bits([&](const auto& in) { return unary(c.kind, c.name, in[0]); }, {x});
    // An element alone, at the end of a row and inside a row gives the same bits.
    const auto whole = unary(c.kind, c.name, x).to_vector();
    const float alone = x.to_vector()[100];
    EXPECT_EQ(unary(c.kind, c.name, tensor({alone}, {1})).item(), whole[100]) << c.name;
  }
}

TEST(Activation, InfinitiesAndNaN) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (DType dtype : {DType::f32, DType::f64}) {
    const Tensor x = to(tensor({-inf, inf, nan, -1e30, 1e30}, {5}), dtype);
    const auto values = [&](UnaryKind kind) { return unary(kind, "f", x).to_vector<double>(); };
    for (UnaryKind kind : {UnaryKind::relu, UnaryKind::gelu, UnaryKind::gelu_tanh, UnaryKind::silu}) {
      const auto y = values(kind);
      EXPECT_EQ(y[0], 0);
      EXPECT_EQ(y[1], inf);
      EXPECT_TRUE(std::isnan(y[2]));
      EXPECT_EQ(y[3], 0);
      EXPECT_EQ(y[4], to(x, DType::f64).to_vector<double>()[4]);
      Tensor in = parameter(x);
      backward(unary(kind, "f", in), ones({5}, {dtype}));
      const auto slope = grad(in).to_vector<double>();
      EXPECT_EQ(slope[0], 0);
      EXPECT_EQ(slope[1], 1);
    }
    EXPECT_EQ(values(UnaryKind::tanh)[0], -1);
    EXPECT_EQ(values(UnaryKind::tanh)[4], 1);
    EXPECT_EQ(values(UnaryKind::sigmoid)[0], 0);
    EXPECT_EQ(values(UnaryKind::sigmoid)[1], 1);
    EXPECT_EQ(values(UnaryKind::exp)[0], 0);
    EXPECT_EQ(values(UnaryKind::exp)[1], inf);
    EXPECT_EQ(values(UnaryKind::exp)[4], inf);
    EXPECT_EQ(values(UnaryKind::log)[1], inf);
    EXPECT_TRUE(std::isnan(values(UnaryKind::log)[0]));
    EXPECT_TRUE(std::isnan(values(UnaryKind::log)[3]));
    for (UnaryKind kind : {UnaryKind::tanh, UnaryKind::sigmoid, UnaryKind::exp, UnaryKind::log}) {
      EXPECT_TRUE(std::isnan(values(kind)[2])) << static_cast<int>(kind) << " " << dtype;
    }
    EXPECT_EQ(unary(UnaryKind::log, "log", zeros({1}, {dtype})).item(), -inf);
  }
}

TEST(Activation, EmptyStridedAndWrong) {
  EXPECT_EQ(gelu(empty({3, 0})).shape(), (Shape{3, 0}));
  const Tensor x = testing::random_f32({4, 6}, 1);
  const Tensor turned = x.as_strided({6, 4}, {1, 6}, 0);
  EXPECT_EQ(gelu(turned).to_vector(), gelu(turned.clone()).to_vector());
  expect_error<ShapeError>([] { relu(arange(3)); }, "relu: x must be f32 or f64, got i64");
  expect_error<ShapeError>([] { silu({}); }, "silu: x is empty");
}

}  // namespace
}  // namespace attend
