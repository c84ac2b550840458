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
  int64_t dim = 0;  ///< width of the query input and of the output
  int64_t heads = 1;
  int64_t key_heads = 0;              ///< number of key and value heads, a divisor of `heads`; 0 = heads
  int64_t head_dim = 0;               ///< 0 = dim / heads
  int64_t key_dim = 0;                ///< width of the key input; 0 = dim
  int64_t value_dim = 0;              ///< width of the value input; 0 = dim
  bool bias = true;                   ///< biases on the projections
  std::optional<bool> output_bias{};  ///< bias on the output projection; default: same as `bias`
  bool qk_norm = false;               ///< RMSNorm on the queries and keys of every head, before RoPE
  double qk_norm_eps = 1e-6;
  bool bias_kv = false;   ///< a learned extra key and value at the end of every sequence
  bool zero_key = false;  ///< an extra key and value of zeros, after that of bias_kv
  double dropout = 0;     ///< probability of dropping an attention weight
  int64_t window = 0;     ///< see AttentionOptions
  double softcap = 0;
  std::optional<double> scale;
  bool alibi = false;               ///< ALiBi with alibi_slopes(heads)
  std::optional<RopeOptions> rope;  ///< RoPE on queries and keys
};

/// The output of an attention call, and a trace from which its weights can be computed later.
struct TracedAttention {
  Tensor output;
  AttentionTrace trace;
};

/// Multi-head attention ("Attention Is All You Need" §3.2.2) with all options of PyTorch's nn.MultiheadAttention,
/// grouped key heads, RoPE and ALiBi. Batch first: query [batch, queries, dim], key [batch, keys, key_dim], value
/// [batch, keys, value_dim].
struct MultiheadAttention {
  MultiheadAttentionConfig config;
  Linear query, key, value, output;
  std::optional<RMSNorm> query_norm, key_norm;  ///< over head_dim, with qk_norm
  Tensor bias_key, bias_value;                  ///< [key_heads · head_dim] with bias_kv

  /// Initial values are PyTorch's. Query, key and value projections are uniform within Xavier's bound, taken over the
  /// three as one matrix if their widths agree. The output projection is initialised like a Linear. Biases are 0.
  /// Throws ShapeError if the config is inconsistent.
  static MultiheadAttention create(const MultiheadAttentionConfig& config, Rng& rng);

  /// Self-attention.
  Tensor forward(const Tensor& x, const MaskOptions& masks = {}, const ForwardPass& pass = {}) const;
  /// Cross-attention: `memory` is both key and value.
  Tensor forward_cross(const Tensor& x, const Tensor& memory, const MaskOptions& masks = {},
                       const ForwardPass& pass = {}) const;

  struct Inputs {
    Tensor query, key, value;
    Tensor residual{};  ///< [batch, queries, dim], added to the output; may be empty
  };
  /// Attention with separate query, key and value inputs. Every query sees the extra keys of bias_kv and zero_key,
  /// independent of the masks. Extra keys together with `causal` or a window need a mask of queries × keys, the only
  /// case whose memory is not linear in the lengths.
  TracedAttention forward_traced(const Inputs& inputs, const MaskOptions& masks = {},
                                 const ForwardPass& pass = {}) const;

  /// Causal self-attention of new tokens x [rows, step.count, dim] that follow the cached tokens. Appends their keys
  /// and values to `cache`. For generation: not recorded. Throws ShapeError if bias_kv or zero_key is set.
  Tensor forward_cached(const Tensor& x, KeyValueCache& cache, const CacheStep& step,
                        const ForwardPass& pass = {}) const;
  /// Projects the keys and values of a memory, for many calls of forward_memory.
  KeyValues project_memory(const Tensor& memory) const;
  /// forward_cross with a projected memory. Throws ShapeError if bias_kv, zero_key or rope is set.
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
