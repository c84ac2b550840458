#include <map>

#include "attend/ops/precision.h"
#include "attend/ops/shape.h"
#include "ops/attention_16bit_checks.h"

// Attention in bf16 and f16 at sizes of several tiles with ragged ends, for the head sizes that have tuned kernels.
namespace attend {
namespace {

using testing::Attention16Bit;
using testing::expect_accurate;
using testing::half_inputs;
using testing::half_mask;
using testing::half_values;
using testing::HalfCase;
using testing::HalfInputs;
using testing::HalfResults;
using testing::kGpu;
using testing::kInf;
using testing::largest;
using testing::poison;
using testing::rounded;
using testing::run_attention;

class AttentionTiles : public Attention16Bit {};
INSTANTIATE_TEST_SUITE_P(All, AttentionTiles, ::testing::Values(DType::bf16, DType::f16),
                         [](const auto& test) { return test.param == DType::bf16 ? "bf16" : "f16"; });

constexpr int64_t kQueries = 330, kKeys = 392;  // keys: a multiple of 8, so that rows of a bias are aligned

HalfCase base_case(DType dtype, int64_t dim) {
  return {.dtype = dtype,
          .heads = dim == 64 ? 2 : 1,
          .kv_heads = 1,
          .queries = kQueries,
          .keys = kKeys,
          .dim = dim,
          .width = dim};
}

void set_bias(HalfCase& c, const Shape& shape) { c.options.bias = half_values(c, shape, 7); }
void set_alibi(HalfCase& c) { c.options.alibi = rounded(alibi_slopes(c.heads, DType::f64), c.dtype); }
void set_dropout(HalfCase& c) {
  c.options.dropout = 0.3;
  c.options.random = {11, 3};
}
void set_packed(HalfCase& c) {
  c.options.q_offsets = tensor<int64_t>({0, 1, 201, 201, 230, kQueries}, {6});
  c.options.k_offsets = tensor<int64_t>({0, 3, 120, 150, 150, kKeys}, {6});
}

using Cases = std::map<std::string, std::function<void(HalfCase&)>>;

const Cases& one_option() {
  static const Cases cases{
      {"plain", [](HalfCase&) {}},
      {"causal", [](HalfCase& c) { c.options.causal = true; }},
      {"bottom_right", [](HalfCase& c) { c.options = {.causal = true, .alignment = Alignment::bottom_right}; }},
      {"more_queries",
       [](HalfCase& c) {
         c.keys = 150;
         c.options = {.causal = true, .alignment = Alignment::bottom_right};
       }},
      {"window", [](HalfCase& c) { c.options.window = 70; }},
      {"window_of_one", [](HalfCase& c) { c.options.window = 1; }},
      {"window_causal", [](HalfCase& c) { c.options = {.causal = true, .window = 130}; }},
      {"lengths",
       [](HalfCase& c) {
         c.batch = 3;
         c.options.lengths = tensor<int64_t>({0, 129, kKeys}, {3});
       }},
      {"packed", set_packed},
      {"packed_causal",
       [](HalfCase& c) {
         c.options = {.causal = true, .alignment = Alignment::bottom_right};
         set_packed(c);
       }},
      {"softcap", [](HalfCase& c) { c.options = {.softcap = 2, .scale = 0.5}; }},
      {"softcap_small_scores", [](HalfCase& c) { c.options.softcap = 30; }},
      {"softcap_large_scores", [](HalfCase& c) { c.options = {.softcap = 0.5, .scale = 1.0}; }},
      {"alibi", set_alibi},
      {"alibi_bottom_right",
       [](HalfCase& c) {
         c.options.alignment = Alignment::bottom_right;
         set_alibi(c);
       }},
      {"bias",
       [](HalfCase& c) {
         set_bias(c, {c.heads, c.queries, c.keys});
       }},
      {"bias_odd",
       [](HalfCase& c) {
         c.keys = 389;
         set_bias(c, {c.heads, c.queries, c.keys});
       }},
      {"bias_over_rows",
       [](HalfCase& c) {
         set_bias(c, {1, c.heads, 1, c.keys});
       }},
      {"bias_over_keys",
       [](HalfCase& c) {
         set_bias(c, {1, c.heads, c.queries, 1});
       }},
      {"mask",
       [](HalfCase& c) {
         c.options.mask = half_mask({c.heads, c.queries, c.keys}, 5);
       }},
      {"mask_aligned",
       [](HalfCase& c) {
         c.keys = 400;
         c.options.mask = half_mask({c.heads, c.queries, c.keys}, 5);
       }},
      {"mask_odd",
       [](HalfCase& c) {
         c.keys = 389;
         c.options.mask = half_mask({c.queries, c.keys}, 5);
       }},
      {"mask_keys",
       [](HalfCase& c) {
         c.options.mask = half_mask({1, 1, 1, c.keys}, 5);
       }},
      {"mask_rows",
       [](HalfCase& c) {
         c.options.mask = half_mask({c.queries, 1}, 5);
       }},
      {"scale_negative", [](HalfCase& c) { c.options.scale = -0.1; }},
      {"dropout", set_dropout},
      {"dropout_odd",
       [](HalfCase& c) {
         c.keys = 389;
         set_dropout(c);
       }},
      {"grouped_causal",
       [](HalfCase& c) {
         c.heads = 6;
         c.kv_heads = 2;
         c.options.causal = true;
       }},
  };
  return cases;
}

const Cases& several_options() {
  static const Cases cases{
      {"softcap_alibi_causal",
       [](HalfCase& c) {
         c.options = {.causal = true, .softcap = 5};
         set_alibi(c);
       }},
      {"bias_mask",
       [](HalfCase& c) {
         c.batch = 2;
         c.keys = 400;
         set_bias(c, {c.batch, 1, c.queries, c.keys});
         c.options.mask = half_mask({c.queries, c.keys}, 5);
       }},
      {"alibi_bias_window",
       [](HalfCase& c) {
         c.options.window = 100;
         set_alibi(c);
         set_bias(c, {c.queries, c.keys});
       }},
      {"mask_dropout_negative_scale",
       [](HalfCase& c) {
         c.options.scale = -0.1;
         c.options.mask = half_mask({c.queries, c.keys}, 5);
         set_dropout(c);
       }},
      {"bias_batch_causal",
       [](HalfCase& c) {
         c.batch = 2;
         c.options.causal = true;
         set_bias(c, {c.batch, c.heads, c.queries, c.keys});
       }},
      {"bias_of_all_heads_grouped",
       [](HalfCase& c) {
         c.batch = 3;
         c.heads = 4;
         c.kv_heads = 2;
         c.options.causal = true;
         c.options.lengths = tensor<int64_t>({129, 0, kKeys}, {3});
         set_bias(c, {c.queries, c.keys});
         set_alibi(c);
       }},
      {"bias_of_heads_odd",
       [](HalfCase& c) {
         c.batch = 2;
         c.heads = 3;
         c.kv_heads = 3;
         c.keys = 389;
         set_bias(c, {1, c.heads, c.queries, c.keys});
       }},
      {"softcap_alibi_bias",
       [](HalfCase& c) {
         c.options = {.softcap = 1, .scale = 0.3};
         set_alibi(c);
         set_bias(c, {c.heads, c.queries, c.keys});
       }},
      {"packed_causal_dropout",
       [](HalfCase& c) {
         c.options = {.causal = true, .alignment = Alignment::bottom_right};
         set_packed(c);
         set_dropout(c);
       }},
      {"negative_alibi_causal",
       [](HalfCase& c) {
         c.options.causal = true;
         c.options.alibi = tensor(std::vector<double>(static_cast<size_t>(c.heads), -0.0625), {c.heads});
       }},
      {"packed_alibi_bias_dropout",
       [](HalfCase& c) {
         set_packed(c);
         set_alibi(c);
         set_bias(c, {c.heads, c.queries, c.keys});
         set_dropout(c);
       }},
      {"everything",
       [](HalfCase& c) {
         c.batch = 2;
         c.options = {.causal = true, .alignment = Alignment::bottom_right, .window = 200, .softcap = 3, .scale = 0.3};
         c.options.lengths = tensor<int64_t>({kKeys, 300}, {2});
         c.options.mask = half_mask({c.batch, 1, c.queries, c.keys}, 5);
         set_bias(c, {c.heads, c.queries, c.keys});
         set_alibi(c);
         set_dropout(c);
       }},
  };
  return cases;
}

/// Calls f for each case of both head sizes.
void for_each(const Cases& cases, DType dtype, const std::function<void(const HalfCase&)>& f) {
  for (const int64_t dim : {64, 128}) {
    for (const auto& [name, set] : cases) {
      SCOPED_TRACE(name + ", head size " + std::to_string(dim));
      HalfCase c = base_case(dtype, dim);
      set(c);
      EXPECT_NO_THROW(f(c));
    }
  }
}

TEST_P(AttentionTiles, EveryOptionAlone) { for_each(one_option(), GetParam(), expect_accurate); }
TEST_P(AttentionTiles, SeveralOptions) { for_each(several_options(), GetParam(), expect_accurate); }

TEST_P(AttentionTiles, SameBitsInEveryRun) {
  const auto check = [](const HalfCase& c) {
    const HalfInputs in = half_inputs(c);
    const HalfResults first = run_attention(in, c.options, c.dtype, kGpu);
    for (int run = 1; run < 10; ++run) {
      const HalfResults again = run_attention(in, c.options, c.dtype, kGpu);
      testing::expect_same_bits(first, again);
      EXPECT_EQ(first.dbias, again.dbias);
    }
  };
  for_each(one_option(), GetParam(), check);
  for_each(several_options(), GetParam(), check);
}

/// Weights on demand, from the log-sum-exp of the tuned kernels.
TEST_P(AttentionTiles, Weights) {
  const auto check = [](const HalfCase& c) {
    const NoGrad no_grad;
    const HalfInputs in = half_inputs(c);
    const auto weights = [&](DType dtype, Device device) {
      const auto moved = [&](const Tensor& x) { return x ? to(to(x, dtype), device) : x; };
      AttentionOptions options = c.options;
      options.bias = moved(options.bias);
      options.alibi = moved(options.alibi);
      const Tensor q = moved(in.q), k = moved(in.k);
      const Tensor lse = attention_with_lse(q, k, moved(in.v), options).lse;
      return to(attention_weights(q, k, lse, options, {.heads = {0}, .rows = {0, 65, 191, 192, 329}}).values, kCpu)
          .to_vector<double>();
    };
    const auto got = weights(c.dtype, kGpu), expected = weights(DType::f64, kCpu);
    ASSERT_EQ(got.size(), expected.size());
    for (size_t n = 0; n < got.size(); ++n) ASSERT_NEAR(got[n], expected[n], 2e-5) << n;
  };
  for_each(one_option(), GetParam(), check);
  for_each(several_options(), GetParam(), check);
}

TEST_P(AttentionTiles, RowsThatSeeNothingAreZero) {
  for (const bool by_bias : {false, true}) {
    for (const int64_t dim : {64, 128}) {
      SCOPED_TRACE(dim);
      HalfCase c = base_case(GetParam(), dim);
      const std::array<size_t, 3> rows{5, 200, 329};
      std::vector<uint8_t> mask(kQueries * kKeys, 1);
      std::vector<double> bias(kQueries * kKeys, 0);
      for (const size_t row : rows) {
        for (size_t j = 0; j < kKeys; ++j) {
          mask[row * kKeys + j] = 0;
          bias[row * kKeys + j] = -kInf;
        }
      }
      if (by_bias)
        c.options.bias = tensor(bias, {kQueries, kKeys});
      else
        c.options.mask = bool_tensor(mask, {kQueries, kKeys});
      const HalfResults got = run_attention(half_inputs(c), c.options, c.dtype, kGpu);
      for (const size_t row : rows) {
        EXPECT_EQ(got.lse[row], -kInf);
        for (size_t n = row * static_cast<size_t>(dim); n < (row + 1) * static_cast<size_t>(dim); ++n) {
          EXPECT_EQ(got.y[n], 0);
          EXPECT_EQ(got.dq[n], 0);
        }
      }
    }
  }
}

/// NaN and ∞ in hidden keys change nothing but the last bits: another kernel computes blocks with such keys again.
TEST_P(AttentionTiles, HiddenKeysNeverLeak) {
  std::vector<uint8_t> mask(kQueries * kKeys, 1);
  std::vector<double> bias(kKeys, 0);
  for (size_t j = 340; j < kKeys; ++j) {
    bias[j] = -kInf;
    for (size_t i = 0; i < kQueries; ++i) mask[i * kKeys + j] = 0;
  }
  Cases hiding{{"mask",
                [&](HalfCase& c) {
                  c.options.mask = bool_tensor(mask, {kQueries, kKeys});
                }},
               {"bias",
                [&](HalfCase& c) {
                  c.options.bias = tensor(bias, {1, 1, 1, kKeys});
                }},
               {"lengths", [](HalfCase& c) { c.options.lengths = tensor<int64_t>({340}, {1}); }},
               {"causal", [](HalfCase& c) { c.options.causal = true; }},
               {"window", [](HalfCase& c) { c.options.window = 10; }},
               {"packed",
                [](HalfCase& c) {
                  c.options.q_offsets = tensor<int64_t>({0, kQueries, kQueries}, {3});
                  c.options.k_offsets = tensor<int64_t>({0, 340, kKeys}, {3});
                }},
               {"mask_softcap_alibi_dropout", [&](HalfCase& c) {
                  c.options.softcap = 4;
                  c.options.mask = bool_tensor(mask, {kQueries, kKeys});
                  set_alibi(c);
                  set_dropout(c);
                }}};
  for_each(hiding, GetParam(), [](const HalfCase& c) {
    HalfInputs in = half_inputs(c);
    const HalfResults clean = run_attention(in, c.options, c.dtype, kGpu);
    poison(in.k, 340, kKeys);
    poison(in.v, 340, kKeys);
    const HalfResults got = run_attention(in, c.options, c.dtype, kGpu);
    const double unit = testing::Rounding(c.dtype).unit();
    const auto expect_near = [&](const std::vector<double>& a, const std::vector<double>& b) {
      ASSERT_EQ(a.size(), b.size());
      const double tolerance = 2 * unit * largest(b) + 1e-5;
      for (size_t n = 0; n < a.size(); ++n) ASSERT_NEAR(a[n], b[n], tolerance) << n;
    };
    expect_near(got.y, clean.y);
    expect_near(got.dq, clean.dq);
    expect_near(got.dk, clean.dk);
    expect_near(got.dv, clean.dv);
    expect_near(got.dbias, clean.dbias);
    for (size_t n = 0; n < got.lse.size(); ++n) ASSERT_NEAR(got.lse[n], clean.lse[n], 2e-5) << n;
  });
}

/// The number at `base`, in the memory of the GPU, is added to the number of dropout's stream.
TEST_P(AttentionTiles, ABaseIsAddedToTheStream) {
  const Tensor base = to(tensor<int64_t>({40}, {1}), kGpu);
  for (const int64_t dim : {64, 80, 128}) {
    SCOPED_TRACE(dim);
    HalfCase c = base_case(GetParam(), dim);
    set_dropout(c);
    const HalfInputs in = half_inputs(c);
    const auto run = [&](const RandomStream& random) {
      c.options.random = random;
      return run_attention(in, c.options, c.dtype, kGpu);
    };
    testing::expect_same_bits(run({1, 2, static_cast<const uint64_t*>(base.raw())}), run({1, 42}));
  }
}

/// The last queries alone get the same bits as among all queries.
TEST_P(AttentionTiles, BatchInvariance) {
  const BatchInvariantScope scope;
  const NoGrad no_grad;
  for (const int64_t dim : {64, 128}) {
    HalfCase c = base_case(GetParam(), dim);
    c.queries = c.keys;
    c.options = {.causal = true, .alignment = Alignment::bottom_right, .softcap = 1};
    const HalfInputs in = half_inputs(c);
    const auto moved = [&](const Tensor& x) { return to(to(x, c.dtype), kGpu); };
    const Tensor q = moved(in.q), k = moved(in.k), v = moved(in.v);
    const Tensor all = attention(q, k, v, c.options);
    for (int64_t last : {20, 70, 200}) {
      const Tensor some = attention(slice(q, 2, kKeys - last, kKeys), k, v, c.options);
      EXPECT_EQ(to(some, kCpu).to_vector<double>(), to(slice(all, 2, kKeys - last, kKeys), kCpu).to_vector<double>())
          << last;
    }
  }
}

}  // namespace
}  // namespace attend
