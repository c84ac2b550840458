#include "ops/ring_attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "attend/autograd/autograd.h"
#include "attend/base/error.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"
#include "distributed/thread_group.h"

namespace attend {
namespace {

using distributed::Group;
using distributed::run_ranks;

struct Case {
  const char* name;
  int64_t length = 64;
  int64_t heads = 2, key_heads = 2, value_dim = 16;
  bool causal = true;
  int64_t window = 0;
  std::vector<int64_t> lengths{};
  bool alibi = false;
  double softcap = 0;

  friend std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {.name = "causal"},
      {.name = "long", .length = 600},
      {.name = "odd", .length = 257},
      {.name = "short", .length = 3},
      {.name = "one", .length = 1},
      {.name = "full", .length = 65, .causal = false},
      {.name = "grouped", .length = 70, .heads = 4, .key_heads = 2, .value_dim = 24},
      {.name = "window", .length = 131, .window = 20},
      {.name = "narrow_window", .length = 131, .window = 1},
      {.name = "wide_window", .length = 131, .window = 90},
      {.name = "window_both_sides", .length = 131, .causal = false, .window = 33},
      {.name = "lengths", .length = 67, .causal = false, .lengths = {67, 20}},
      {.name = "causal_lengths", .length = 67, .lengths = {40, 0}},
      {.name = "alibi", .length = 99, .alibi = true},
      {.name = "alibi_both_sides", .length = 99, .causal = false, .alibi = true},
      {.name = "everything",
       .length = 150,
       .heads = 4,
       .key_heads = 1,
       .causal = true,
       .window = 60,
       .lengths = {150, 90},
       .alibi = true,
       .softcap = 5},
  };
  return all;
}

struct Inputs {
  Tensor q, k, v, dy;
  AttentionOptions options;
};

Inputs inputs_of(const Case& c, DType dtype) {
  auto random = [&, stream = uint64_t{0}](const Shape& shape) mutable {
    return to(normal(shape, 0, 1, {7, stream++}, {DType::f64}), dtype);
  };
  Inputs in;
  in.q = random({2, c.heads, c.length, 16});
  in.k = random({2, c.key_heads, c.length, 16});
  in.v = random({2, c.key_heads, c.length, c.value_dim});
  in.dy = random({2, c.heads, c.length, c.value_dim});
  in.options = {.causal = c.causal, .window = c.window, .softcap = c.softcap};
  if (!c.lengths.empty()) in.options.lengths = tensor(c.lengths, {2});
  if (c.alibi) {
    std::vector<double> slopes;
    for (int64_t head = 0; head < c.heads; ++head) slopes.push_back(std::ldexp(0.5, static_cast<int>(-head)));
    in.options.alibi = to(tensor(slopes, {c.heads}), dtype);
  }
  return in;
}

struct Results {
  Tensor y, dq, dk, dv;
};

Results alone(const Inputs& in) {
  const Tensor q = parameter(in.q.clone()), k = parameter(in.k.clone()), v = parameter(in.v.clone());
  const Tensor y = attention(q, k, v, in.options);
  backward(y, in.dy);
  return {y.detach(), grad(q), grad(k), grad(v)};
}

/// Copies a rank's part to its place in the whole.
void put(const Tensor& mine, const Tensor& whole, const ContextPart& part) {
  int64_t at = 0;
  for (const PositionRange& chunk : part.chunks()) {
    copy_values(slice(mine, 2, at, at + chunk.size()), slice(whole, 2, chunk.begin, chunk.end));
    at += chunk.size();
  }
}

Results divided(const Inputs& in, int ranks) {
  const Results all{zeros_like(in.dy), zeros_like(in.q), zeros_like(in.k), zeros_like(in.v)};
  run_ranks(ranks, [&](Group& group) {
    const ContextPart part(group, in.q.dim(2));
    const auto mine = [&](const Tensor& x) { return parameter(part.take(x, 2).clone()); };
    const Tensor q = mine(in.q), k = mine(in.k), v = mine(in.v);
    const Tensor y = ring_attention(q, k, v, in.options, part);
    backward(y, part.take(in.dy, 2));
    put(y.detach(), all.y, part);
    put(grad(q), all.dq, part);
    put(grad(k), all.dk, part);
    put(grad(v), all.dv, part);
    EXPECT_GE(part.times().busy, 0);
    EXPECT_EQ(part.times().busy > 0, ranks > 1);
    EXPECT_GE(part.times().exposed, 0);
  });
  return all;
}

double largest(const Tensor& x) {
  double most = 0;
  for (const double value : x.to_vector<double>()) most = std::max(most, std::abs(value));
  return most;
}

/// The largest difference as a share of the largest value; infinite if a value is NaN.
double difference(const Tensor& x, const Tensor& expected) {
  const auto a = x.to_vector<double>(), b = expected.to_vector<double>();
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double error = std::abs(a[i] - b[i]);
    most = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(most, error);
  }
  const double scale = largest(expected);
  return scale > 0 ? most / scale : most;
}

class RingAttentionCase : public ::testing::TestWithParam<Case> {};

TEST_P(RingAttentionCase, AgreesWithOneProcess) {
  for (const auto& [dtype, output, gradient] :
       {std::tuple{DType::f64, 1e-14, 1e-14}, std::tuple{DType::f32, 1e-6, 4e-6}}) {
    const Inputs in = inputs_of(GetParam(), dtype);
    const Results expected = alone(in);
    for (const int ranks : {1, 2, 3, 4}) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks");
      const Results got = divided(in, ranks);
      EXPECT_LE(difference(got.y, expected.y), output);
      EXPECT_LE(difference(got.dq, expected.dq), gradient);
      EXPECT_LE(difference(got.dk, expected.dk), gradient);
      EXPECT_LE(difference(got.dv, expected.dv), gradient);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Options, RingAttentionCase, ::testing::ValuesIn(cases()),
                         [](const auto& tested) { return tested.param.name; });

TEST(RingAttention, HasTheSameBitsInEachRun) {
  const Inputs in = inputs_of({.name = "", .length = 301, .window = 150, .alibi = true}, DType::f32);
  const Results first = divided(in, 4), second = divided(in, 4);
  EXPECT_EQ(first.y.to_vector(), second.y.to_vector());
  EXPECT_EQ(first.dq.to_vector(), second.dq.to_vector());
  EXPECT_EQ(first.dk.to_vector(), second.dk.to_vector());
  EXPECT_EQ(first.dv.to_vector(), second.dv.to_vector());
}

TEST(RingAttention, HiddenKeysDoNotLeak) {
  Inputs in = inputs_of({.name = "", .length = 40, .causal = false, .lengths = {25, 25}}, DType::f32);
  const Results expected = alone(in);
  const auto spoil = [](const Tensor& x) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    copy_values(full({2, 2, 15, 16}, static_cast<double>(nan)), slice(x, 2, 25, 40));
  };
  spoil(in.k);
  spoil(in.v);
  EXPECT_LE(difference(divided(in, 3).y, expected.y), 1e-6);
}

TEST(RingAttention, DropsTheGivenShareOfWeights) {
  // Values of 1: without dropout, each output is 1. With it, outputs are sums of kept weights / (1 − p).
  Inputs in = inputs_of({.name = "", .length = 512, .causal = false}, DType::f32);
  in.v = ones(in.v.shape());
  in.options.dropout = 0.25;
  in.options.random = {3, 4};
  const Results got = divided(in, 2), again = divided(in, 2);
  EXPECT_EQ(got.y.to_vector(), again.y.to_vector());
  double sum = 0, squares = 0;
  for (const double y : got.y.to_vector<double>()) sum += y, squares += (y - 1) * (y - 1);
  const auto count = static_cast<double>(got.y.numel());
  EXPECT_NEAR(sum / count, 1, 0.01);
  EXPECT_GT(squares / count, 1e-4);
  // Σ dv · v = Σ dy · y: the backward pass uses the same masks.
  double left = 0, right = 0;
  const auto y = got.y.to_vector<double>(), dy = in.dy.to_vector<double>();
  for (size_t i = 0; i < y.size(); ++i) right += y[i] * dy[i];
  for (const double dv : got.dv.to_vector<double>()) left += dv;
  EXPECT_NEAR(left, right, 1e-3 * std::max(1.0, std::abs(right)));
}

TEST(RingAttention, NamesOptionsThatCannotBeDivided) {
  const auto message = [](AttentionOptions options, int64_t length = 4) -> std::string {
    try {
      const ContextPart part(distributed::world(), 4);
      const Tensor x = ones({1, 1, length, 2});
      ring_attention(x, x, x, options, part);
    } catch (const ShapeError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message({}), "");
  EXPECT_EQ(message({.mask = bool_tensor(std::vector<uint8_t>{1}, {1})}),
            "ring_attention: a mask cannot be divided among ranks");
  EXPECT_EQ(message({.bias = ones({1})}), "ring_attention: a bias cannot be divided among ranks");
  EXPECT_EQ(message({.q_offsets = arange(2)}), "ring_attention: packed sequences cannot be divided among ranks");
  EXPECT_EQ(message({.lengths = tensor<int64_t>({5}, {1})}), "ring_attention: a length of 5 is outside 0 … 4");
  EXPECT_NE(message({}, 5).find("expected [batch, heads, 4, head_dim]"), std::string::npos);
}

TEST(ContextPart, DividesPositionsInZigZag) {
  run_ranks(3, [](Group& group) {
    const ContextPart part(group, 13);
    const std::vector<std::vector<int64_t>> expected{{0, 1, 10, 11, 12}, {2, 3, 8, 9}, {4, 5, 6, 7}};
    EXPECT_EQ(part.positions().to_vector<int64_t>(), expected[static_cast<size_t>(group.rank())]);
    EXPECT_EQ(part.take(arange(13), 0).to_vector<int64_t>(), expected[static_cast<size_t>(group.rank())]);
    EXPECT_EQ(part.size(), std::ssize(expected[static_cast<size_t>(group.rank())]));
  });
}

}  // namespace
}  // namespace attend
