#include "ops/attention_16bit_checks.h"

#include <chrono>
#include <map>

#include "attend/ops/precision.h"
#include "attend/ops/shape.h"
#include "backend/kernels.h"

namespace attend {
namespace {

using testing::Attention16Bit;
using testing::expect_accurate;
using testing::expect_same_bits;
using testing::half_inputs;
using testing::half_mask;
using testing::half_values;
using testing::HalfCase;
using testing::HalfInputs;
using testing::HalfResults;
using testing::host_values;
using testing::kGpu;
using testing::kInf;
using testing::poison;
using testing::rounded;
using testing::run_attention;

INSTANTIATE_TEST_SUITE_P(All, Attention16Bit, ::testing::Values(DType::bf16, DType::f16),
                         [](const auto& test) { return test.param == DType::bf16 ? "bf16" : "f16"; });

/// Every option alone.
std::map<std::string, HalfCase> options_alone(DType dtype) {
  const HalfCase base{.dtype = dtype, .queries = 100, .keys = 130};
  std::map<std::string, HalfCase> list;
  const auto add = [&](const std::string& name, const auto& set) {
    HalfCase c = base;
    set(c);
    list[name] = c;
  };
  const auto bias = [](HalfCase& c, const Shape& shape) { c.options.bias = half_values(c, shape, 7); };
  add("plain", [](HalfCase&) {});
  add("causal", [](HalfCase& c) { c.options.causal = true; });
  add("bottom_right", [](HalfCase& c) { c.options = {.causal = true, .alignment = Alignment::bottom_right}; });
  add("more_queries", [](HalfCase& c) {
    c.queries = 140;
    c.keys = 70;
    c.options = {.causal = true, .alignment = Alignment::bottom_right};
  });
  add("window", [](HalfCase& c) { c.options.window = 9; });
  add("window_causal", [](HalfCase& c) { c.options = {.causal = true, .window = 40}; });
  add("mask", [](HalfCase& c) { c.options.mask = half_mask({c.batch, c.heads, c.queries, c.keys}, 5); });
  add("mask_odd", [](HalfCase& c) {
    c.keys = 129;
    c.options.mask = half_mask({c.queries, c.keys}, 5);
  });
  add("mask_keys", [](HalfCase& c) { c.options.mask = half_mask({c.batch, 1, 1, c.keys}, 5); });
  add("mask_rows", [](HalfCase& c) { c.options.mask = half_mask({c.queries, 1}, 5); });
  add("bias", [&](HalfCase& c) {
    c.batch = 2;
    bias(c, {c.batch, c.heads, c.queries, c.keys});
  });
  add("bias_odd", [&](HalfCase& c) {
    c.keys = 129;
    bias(c, {c.heads, c.queries, c.keys});
  });
  add("bias_over_batch", [&](HalfCase& c) {
    c.batch = 2;
    bias(c, {c.heads, c.queries, c.keys});
  });
  add("bias_over_heads", [&](HalfCase& c) {
    c.batch = 2;
    bias(c, {c.batch, 1, c.queries, c.keys});
  });
  add("bias_over_rows", [&](HalfCase& c) { bias(c, {1, c.heads, 1, c.keys}); });
  add("bias_over_keys", [&](HalfCase& c) { bias(c, {1, c.heads, c.queries, 1}); });
  add("bias_one", [&](HalfCase& c) { bias(c, {1, c.heads, 1, 1}); });
  add("lengths", [](HalfCase& c) {
    c.batch = 4;
    c.options.lengths = tensor<int64_t>({0, 1, 65, 130}, {4});
  });
  add("packed", [](HalfCase& c) {
    c.options.q_offsets = tensor<int64_t>({0, 1, 34, 34, 70, 100}, {6});
    c.options.k_offsets = tensor<int64_t>({0, 1, 32, 51, 51, 130}, {6});
  });
  add("packed_causal", [](HalfCase& c) {
    c.options = {.causal = true, .alignment = Alignment::bottom_right};
    c.options.q_offsets = tensor<int64_t>({0, 5, 100}, {3});
    c.options.k_offsets = tensor<int64_t>({0, 35, 130}, {3});
  });
  add("alibi", [](HalfCase& c) { c.options.alibi = rounded(alibi_slopes(c.heads, DType::f64), c.dtype); });
  add("softcap", [](HalfCase& c) { c.options = {.softcap = 0.5, .scale = 0.7}; });
  add("scale", [](HalfCase& c) { c.options.scale = 0.3; });
  add("scale_negative", [](HalfCase& c) { c.options.scale = -0.2; });
  add("scale_zero", [](HalfCase& c) { c.options.scale = 0; });
  add("dropout", [](HalfCase& c) {
    c.keys = 129;
    c.options.dropout = 0.3;
    c.options.random = {11, 3};
  });
  add("grouped", [](HalfCase& c) {
    c.heads = 6;
    c.options.causal = true;
  });
  add("one_key_head", [](HalfCase& c) {
    c.heads = 3;
    c.kv_heads = 1;
  });
  return list;
}

TEST_P(Attention16Bit, EveryOptionAlone) {
  for (const auto& [name, c] : options_alone(GetParam())) {
    SCOPED_TRACE(name);
    expect_accurate(c);
  }
}

TEST_P(Attention16Bit, HeadSizes) {
  for (int64_t dim : {1, 8, 16, 20, 32, 48, 64, 80, 96, 128, 160, 192, 256}) {
    SCOPED_TRACE(dim);
    expect_accurate({.dtype = GetParam(),
                     .heads = 1,
                     .kv_heads = 1,
                     .queries = 40,
                     .keys = 70,
                     .dim = dim,
                     .width = dim,
                     .options = {.causal = true, .alignment = Alignment::bottom_right}});
  }
}

TEST_P(Attention16Bit, ValueWidths) {
  using Sizes = std::pair<int64_t, int64_t>;
  for (const auto& [dim, width] :
       {Sizes{64, 32}, Sizes{16, 80}, Sizes{128, 160}, Sizes{40, 256}, Sizes{256, 24}, Sizes{96, 8}, Sizes{20, 3}}) {
    SCOPED_TRACE(dim);
    expect_accurate(
        {.dtype = GetParam(), .heads = 1, .kv_heads = 1, .queries = 40, .keys = 70, .dim = dim, .width = width});
  }
}

TEST_P(Attention16Bit, Lengths) {
  for (int64_t queries : {0, 1, 31, 33, 65, 130}) {
    for (int64_t keys : {0, 1, 31, 33, 65, 130}) {
      SCOPED_TRACE(std::to_string(queries) + " queries, " + std::to_string(keys) + " keys");
      expect_accurate({.dtype = GetParam(),
                       .heads = 1,
                       .kv_heads = 1,
                       .queries = queries,
                       .keys = keys,
                       .dim = 32,
                       .width = 32,
                       .options = {.causal = queries % 2 == 1}});
    }
  }
}

HalfCase random_case(DType dtype, unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  const auto chance = [&](int64_t n) { return below(n) == 0; };
  const std::vector<int64_t> sizes{8, 16, 20, 32, 48, 64, 80, 96, 128, 160, 256}, lengths{1, 31, 33, 65, 130};
  const auto pick = [&](const std::vector<int64_t>& from) {
    return from[static_cast<size_t>(below(std::ssize(from)))];
  };
  HalfCase c{.dtype = dtype, .batch = 1 + below(2), .kv_heads = 1 + below(2)};
  c.heads = c.kv_heads * (1 + below(3));
  c.queries = pick(lengths);
  c.keys = chance(2) ? c.queries : pick(lengths);
  c.dim = pick(sizes);
  c.width = chance(2) ? c.dim : pick(sizes);
  AttentionOptions& o = c.options;
  o.causal = chance(2);
  if (chance(2)) o.alignment = Alignment::bottom_right;
  if (chance(4)) o.window = 1 + below(80);
  const auto shape = [&] {
    return Shape{chance(2) ? 1 : c.batch, chance(2) ? 1 : c.heads, chance(4) ? 1 : c.queries, chance(6) ? 1 : c.keys};
  };
  if (chance(3)) o.mask = half_mask(shape(), seed + 100);
  if (chance(3)) o.bias = half_values(c, shape(), seed + 200);
  if (chance(4)) {
    c.batch = 1;
    if (o.mask) o.mask = half_mask({c.queries, c.keys}, seed + 100);
    if (o.bias) o.bias = half_values(c, {c.heads, c.queries, c.keys}, seed + 200);
    const int64_t a = below(c.queries + 1), b = below(c.keys + 1);
    o.q_offsets = tensor<int64_t>({0, a, a, c.queries}, {4});
    o.k_offsets = tensor<int64_t>({0, b, b, c.keys}, {4});
  } else if (chance(3)) {
    std::vector<int64_t> values;
    for (int64_t b = 0; b < c.batch; ++b) values.push_back(below(c.keys + 1));
    o.lengths = tensor(values, {c.batch});
  }
  if (chance(4)) o.alibi = rounded(alibi_slopes(c.heads, DType::f64), dtype);
  if (chance(4)) o.softcap = 1 + static_cast<double>(below(30));
  if (chance(4)) o.scale = 0.05 * static_cast<double>(below(20)) - 0.3;
  if (chance(3)) {
    o.dropout = 0.05 * static_cast<double>(1 + below(12));
    o.random = {seed, 7};
  }
  return c;
}

TEST_P(Attention16Bit, RandomCombinations) {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    expect_accurate(random_case(GetParam(), seed));
  }
}

TEST_P(Attention16Bit, RowsThatSeeNothingAreZero) {
  HalfCase c{.dtype = GetParam(), .queries = 70, .keys = 70};
  std::vector<uint8_t> mask(70 * 70, 1);
  for (size_t j = 0; j < 70; ++j) mask[5 * 70 + j] = mask[69 * 70 + j] = 0;
  c.options.mask = bool_tensor(mask, {70, 70});
  const HalfResults got = run_attention(half_inputs(c), c.options, c.dtype, kGpu);
  for (size_t row : {5, 69}) {
    EXPECT_EQ(got.lse[row], -kInf);
    for (size_t n = row * 64; n < (row + 1) * 64; ++n) {
      EXPECT_EQ(got.y[n], 0);
      EXPECT_EQ(got.dq[n], 0);
    }
  }
  expect_accurate(c);
}

TEST_P(Attention16Bit, HiddenKeysNeverLeak) {
  std::map<std::string, AttentionOptions> hiding;
  std::vector<uint8_t> mask(40 * 90, 1);
  for (size_t i = 0; i < 40; ++i) {
    for (size_t j = 80; j < 90; ++j) mask[i * 90 + j] = 0;
  }
  hiding["mask"].mask = bool_tensor(mask, {40, 90});
  hiding["lengths"].lengths = tensor<int64_t>({80}, {1});
  std::vector<double> bias(90, 0);
  std::fill(bias.begin() + 80, bias.end(), -kInf);
  hiding["bias"].bias = tensor(bias, {90});
  hiding["causal"].causal = true;
  hiding["window"] = {.window = 12};
  for (const auto& [name, options] : hiding) {
    SCOPED_TRACE(name);
    HalfCase c{.dtype = GetParam(), .queries = 40, .keys = 90, .dim = 80, .width = 80};
    HalfInputs in = half_inputs(c);
    const HalfResults clean = run_attention(in, options, c.dtype, kGpu);
    poison(in.k, 80, 90);
    poison(in.v, 80, 90);
    const HalfResults got = run_attention(in, options, c.dtype, kGpu);
    expect_same_bits(got, clean);
  }
}

/// A key that only some queries see: the others keep their values, and those that see it get what is not finite.
TEST_P(Attention16Bit, UnusualKeysReachOnlyTheirQueries) {
  HalfCase c{.dtype = GetParam(), .heads = 1, .kv_heads = 1, .queries = 70, .keys = 90, .dim = 64, .width = 64};
  std::vector<uint8_t> mask(70 * 90, 1);
  for (size_t i = 0; i < 70; ++i) {
    for (size_t j = 10; j < 12; ++j) mask[i * 90 + j] = i % 3 == 0;
  }
  c.options.mask = bool_tensor(mask, {70, 90});
  HalfInputs in = half_inputs(c);
  const HalfResults clean = run_attention(in, c.options, c.dtype, kGpu);
  const double unit = testing::Rounding(c.dtype).unit();
  const double most_y = testing::largest(clean.y), most_dq = testing::largest(clean.dq);
  poison(in.v, 10, 12);
  const HalfResults got = run_attention(in, c.options, c.dtype, kGpu);
  for (size_t n = 0; n < got.y.size(); ++n) {
    if (n / 64 % 3 == 0) {
      EXPECT_FALSE(std::isfinite(got.y[n])) << n;
    } else {
      // Another kernel may compute blocks with such keys again.
      EXPECT_NEAR(got.y[n], clean.y[n], 2 * unit * most_y) << n;
      EXPECT_NEAR(got.dq[n], clean.dq[n], 2 * unit * most_dq) << n;
    }
  }
}

/// NaN in a query or in its upstream gradient reaches only the keys that the query sees.
TEST_P(Attention16Bit, UnusualQueriesReachOnlyTheirKeys) {
  for (bool in_query : {true, false}) {
    HalfCase c{.dtype = GetParam(), .heads = 1, .kv_heads = 1, .queries = 90, .keys = 90, .dim = 32, .width = 32};
    c.options.causal = true;
    HalfInputs in = half_inputs(c);
    poison(in_query ? in.q : in.dy, 20, 21);
    const HalfResults got = run_attention(in, c.options, c.dtype, kGpu);
    EXPECT_FALSE(std::isfinite(got.dk[0]));
    EXPECT_FALSE(std::isfinite(got.dv[0]));
    for (size_t n = 21 * 32; n < got.dk.size(); ++n) {
      ASSERT_TRUE(std::isfinite(got.dk[n])) << in_query << " " << n;
      ASSERT_TRUE(std::isfinite(got.dv[n])) << in_query << " " << n;
    }
  }
}

/// x with the memory layout [batch, length, heads, dim + padding].
Tensor heads_inside(const Tensor& x, int64_t padding) {
  const int64_t row = x.dim(3) + padding;
  const Tensor memory = full({x.dim(0), x.dim(2), x.dim(1), row}, 7, {x.dtype(), x.device()});
  const Tensor view = memory.as_strided(x.shape(), {x.dim(2) * x.dim(1) * row, row, x.dim(1) * row, 1}, 0);
  copy_values(x, view);
  return view;
}

TEST_P(Attention16Bit, ReadsStridedViewsInPlace) {
  HalfCase c{.dtype = GetParam(), .batch = 2, .heads = 4, .queries = 40, .keys = 70, .dim = 48, .width = 48};
  c.options.causal = true;
  const HalfInputs in = half_inputs(c);
  const HalfResults dense = run_attention(in, c.options, c.dtype, kGpu);
  for (int64_t padding : {0, 8, 4, 1}) {
    SCOPED_TRACE(padding);
    const HalfResults strided =
        run_attention(in, c.options, c.dtype, kGpu, [&](const Tensor& x) { return heads_inside(x, padding); });
    EXPECT_EQ(strided.y, dense.y);
    EXPECT_EQ(strided.dq, dense.dq);
    EXPECT_EQ(strided.dk, dense.dk);
    EXPECT_EQ(strided.dv, dense.dv);
  }
}

TEST_P(Attention16Bit, SameBitsInEveryRun) {
  for (unsigned seed : {2, 9, 17, 30}) {
    SCOPED_TRACE(seed);
    const HalfCase c = random_case(GetParam(), seed);
    const HalfInputs in = half_inputs(c);
    const HalfResults first = run_attention(in, c.options, c.dtype, kGpu);
    const HalfResults second = run_attention(in, c.options, c.dtype, kGpu);
    expect_same_bits(first, second);
    EXPECT_EQ(first.dbias, second.dbias);
  }
}

/// The last queries alone get the same bits as among all queries.
TEST_P(Attention16Bit, BatchInvariance) {
  const BatchInvariantScope scope;
  const NoGrad no_grad;
  for (bool windowed : {false, true}) {
    HalfCase c{.dtype = GetParam(), .queries = 150, .keys = 150, .dim = 80, .width = 80};
    c.options = {.causal = true, .alignment = Alignment::bottom_right, .window = windowed ? 50 : 0};
    const HalfInputs in = half_inputs(c);
    const auto moved = [&](const Tensor& x) { return to(to(x, c.dtype), kGpu); };
    const Tensor q = moved(in.q), k = moved(in.k), v = moved(in.v);
    const Tensor all = attention(q, k, v, c.options);
    for (int64_t last : {1, 5, 20, 70}) {
      const Tensor some = attention(slice(q, 2, 150 - last, 150), k, v, c.options);
      EXPECT_EQ(to(some, kCpu).to_vector<double>(), to(slice(all, 2, 150 - last, 150), kCpu).to_vector<double>())
          << last;
    }
  }
}

/// Prints TFLOP/s; asserts nothing. Run with --gtest_also_run_disabled_tests --gtest_filter='*16BitSpeed*'.
class Attention16BitSpeed : public Attention16Bit {
 protected:
  static double seconds(const std::function<void()>& f) {
    std::vector<double> times;
    for (int run = 0; run < 12; ++run) {
      kernels(kGpu).memory.synchronize();
      const auto start = std::chrono::steady_clock::now();
      for (int n = 0; n < 4; ++n) f();
      kernels(kGpu).memory.synchronize();
      times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / 4);
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }
  static void report(const std::string& name, const HalfCase& c, double share) {
    const auto moved = [&](const Shape& shape, uint64_t seed) {
      return parameter(to(uniform(shape, -1, 1, {seed, 0}, {DType::f32, kGpu}), c.dtype));
    };
    const Tensor q = moved({c.batch, c.heads, c.queries, c.dim}, 1), k = moved({c.batch, c.kv_heads, c.keys, c.dim}, 2),
                 v = moved({c.batch, c.kv_heads, c.keys, c.width}, 3);
    Tensor y;
    const double flops = 2.0 * static_cast<double>(c.batch * c.heads * c.queries * c.keys * (c.dim + c.width)) * share;
    const double forward = seconds([&] { y = attention(q, k, v, c.options); });
    const Tensor dy = to(uniform(y.shape(), -1, 1, {4, 0}, {DType::f32, kGpu}), c.dtype);
    const double both = seconds([&] { backward(attention(q, k, v, c.options), dy); });
    std::printf("%-24s d%-3d forward %7.3f ms %6.1f TFLOP/s   backward %7.3f ms %6.1f TFLOP/s\n", name.c_str(),
                static_cast<int>(c.dim), forward * 1e3, flops / forward * 1e-12, (both - forward) * 1e3,
                2.5 * flops / (both - forward) * 1e-12);
  }
};
INSTANTIATE_TEST_SUITE_P(All, Attention16BitSpeed, ::testing::Values(DType::bf16), [](const auto&) { return "bf16"; });

TEST_P(Attention16BitSpeed, DISABLED_Tokens8192) {
  for (int64_t dim : {64, 128, 32, 80, 96, 160, 256}) {
    HalfCase c{
        .dtype = GetParam(), .heads = 16, .kv_heads = 16, .queries = 8192, .keys = 8192, .dim = dim, .width = dim};
    report("full", c, 1);
    c.options.causal = true;
    report("causal", c, 0.5);
  }
  for (int64_t dim : {64, 128}) {
    const HalfCase base{
        .dtype = GetParam(), .heads = 16, .kv_heads = 16, .queries = 8192, .keys = 8192, .dim = dim, .width = dim};
    const auto with = [&](const std::string& name, const AttentionOptions& options, double share) {
      HalfCase c = base;
      c.options = options;
      report(name, c, share);
    };
    const auto device = [&](const Tensor& x) { return to(to(x, GetParam()), kGpu); };
    with("window 512", {.causal = true, .window = 512}, 512.0 / 8192);
    with("mask", {.mask = to(half_mask({8192, 8192}, 5, -0.9), kGpu)}, 1);
    with("mask keys", {.mask = to(half_mask({8192}, 5, -0.9), kGpu)}, 1);
    with("bias", {.bias = device(uniform({16, 8192, 8192}, -1, 1, {7, 0}, {DType::f32, kGpu}))}, 1);
    with("bias of one head", {.bias = device(uniform({8192, 8192}, -1, 1, {7, 0}, {DType::f32, kGpu}))}, 1);
    with("bias, gradient", {.bias = parameter(device(uniform({16, 8192, 8192}, -1, 1, {7, 0}, {DType::f32, kGpu})))},
         1);
    with("lengths", {.lengths = tensor<int64_t>({6000}, {1})}, 6000.0 / 8192);
    with("packed",
         {.causal = true,
          .q_offsets = tensor<int64_t>({0, 2048, 4096, 8192}, {4}),
          .k_offsets = tensor<int64_t>({0, 2048, 4096, 8192}, {4})},
         0.1875);
    with("alibi", {.causal = true, .alibi = device(alibi_slopes(16, DType::f32))}, 0.5);
    with("softcap", {.causal = true, .softcap = 30}, 0.5);
    with("dropout", {.causal = true, .dropout = 0.1, .random = {1, 2}}, 0.5);
    HalfCase grouped = base;
    grouped.kv_heads = 4;
    grouped.options.causal = true;
    report("grouped", grouped, 0.5);
  }
}

}  // namespace
}  // namespace attend
