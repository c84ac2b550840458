#pragma once

#include <optional>

#include "attend/nn/cache.h"
#include "attend/nn/forward_pass.h"
#include "attend/nn/linear.h"
#include "attend/nn/masks.h"
#include "attend/nn/norm.h"
#include "attend/ops/position.h"

namespace attend {

struct MultiheadAttentionConfig {
  int64_t dim = 0;  ///< width of the queries and of the result
  int64_t heads = 1;
  int64_t key_heads = 0;              ///< fewer key and value heads than query heads (a divisor); 0 = as many
  int64_t head_dim = 0;               ///< 0 = dim / heads
  int64_t key_dim = 0;                ///< width of the keys that come in; 0 = dim
  int64_t value_dim = 0;              ///< width of the values that come in; 0 = dim
  bool bias = true;                   ///< on the projections
  std::optional<bool> output_bias{};  ///< on the output projection alone; default: as `bias`
  bool qk_norm = false;               ///< RMSNorm on the queries and keys of every head, before rotary positions
  double qk_norm_eps = 1e-6;
  bool bias_kv = false;   ///< one more, learned, key and value at the end of every sequence
  bool zero_key = false;  ///< one more key and value, all 0, at the very end
  double dropout = 0;     ///< of attention weights
  int64_t window = 0;     ///< see AttentionOptions
  double softcap = 0;
  std::optional<double> scale;
  bool alibi = false;               ///< ALiBi's slopes for this number of heads
  std::optional<RopeOptions> rope;  ///< turns queries and keys by their positions
};

/// The result with what is needed to ask for its weights; asking later costs only what is asked for.
struct TracedAttention {
  Tensor output;
  AttentionTrace trace;
};

/// Attention with several heads ("Attention Is All You Need" §3.2.2), all of nn.MultiheadAttention and grouped key
/// heads, rotary positions and ALiBi. Batch first: query [batch, queries, dim], key and value [batch, keys, width].
struct MultiheadAttention {
  MultiheadAttentionConfig config;
  Linear query, key, value, output;
  std::optional<RMSNorm> query_norm, key_norm;  ///< over head_dim, with qk_norm
  Tensor bias_key, bias_value;                  ///< [key_heads · head_dim] with bias_kv

  /// Projections even within Xavier's bound (query, key and value as one matrix where their widths agree), output as a
  /// Linear, biases 0: PyTorch's defaults. Throws ShapeError where the config does not add up.
  static MultiheadAttention create(const MultiheadAttentionConfig& config, Rng& rng);

  /// Self-attention.
  Tensor forward(const Tensor& x, const MaskOptions& masks = {}, const ForwardPass& pass = {}) const;
  /// Attention to another sequence, whose values are its keys.
  Tensor forward_cross(const Tensor& x, const Tensor& memory, const MaskOptions& masks = {},
                       const ForwardPass& pass = {}) const;

  struct Inputs {
    Tensor query, key, value;
  };
  /// Extra keys (bias_kv, zero_key) are seen by every query, whatever the masks; together with `causal` or a window
  /// they make a mask of queries × keys, the one case that is not linear in memory.
  TracedAttention forward_traced(const Inputs& inputs, const MaskOptions& masks = {},
                                 const ForwardPass& pass = {}) const;

  /// Self-attention of new tokens x [rows, step.count, dim] that come after what `cache` holds, causally; they are
  /// added to it. For generation: not recorded. Throws ShapeError with bias_kv or zero_key.
  Tensor forward_cached(const Tensor& x, KeyValueCache& cache, const CacheStep& step,
                        const ForwardPass& pass = {}) const;
  /// The keys and values of a memory that many steps will look at, and attention to them: the same as forward_cross.
  KeyValues project_memory(const Tensor& memory) const;
  Tensor forward_memory(const Tensor& x, const KeyValues& memory, const MaskOptions& masks = {},
                        const ForwardPass& pass = {}) const;

  static void fields(auto&& visit) {
    using Self = MultiheadAttention;
    visit("query", &Self::query);
    visit("key", &Self::key);
    visit("value", &Self::value);
    visit("output", &Self::output);
    visit("query_norm", &Self::query_norm);
    visit("key_norm", &Self::key_norm);
    visit("bias_key", &Self::bias_key);
    visit("bias_value", &Self::bias_value);
  }
};

}  // namespace attend
