#pragma once

#include "attend/nn/linear.h"
#include "attend/nn/multihead_attention.h"

// Attention as recurrent decoders use it: one state, or several, looks at a memory of encoder states. The scores
// differ; softmax, mask (true = may attend, an empty row gives 0) and the weighted sum are those of the attention op.
namespace attend {

/// What a decoder looks with and at. The result is [batch, memory_dim], or [batch, states, memory_dim] for several
/// states; the weights are had from its trace as [batch, 1, states, length].
struct MemoryInputs {
  Tensor state;   ///< [batch, state_dim] or [batch, states, state_dim]
  Tensor memory;  ///< [batch, length, memory_dim]
  Tensor mask{};  ///< boolean [batch, length], true = may attend; empty: all
};

struct BahdanauAttentionConfig {
  int64_t state = 0;      ///< width of the decoder's state
  int64_t memory = 0;     ///< width of the encoder's states
  int64_t state_dim = 0;  ///< of the score
};

/// Additive scores, e_j = v · tanh(W s + U h_j) (Bahdanau et al. 2015): `query` is W, `key` U, `score` v; no biases.
struct BahdanauAttention {
  Linear query, key, score;

  static BahdanauAttention create(const BahdanauAttentionConfig& config, Rng& rng);
  /// U h_j for a memory that many states will look at: pass it to forward to compute it once.
  Tensor project(const Tensor& memory) const { return key.forward(memory); }
  TracedAttention forward(const MemoryInputs& inputs, const ForwardPass& pass = {}, const Tensor& projected = {}) const;

  static void fields(auto&& visit) {
    using Self = BahdanauAttention;
    visit("query", &Self::query);
    visit("key", &Self::key);
    visit("score", &Self::score);
  }
};

enum class LuongScore {
  dot,     ///< s · h_j; state and memory are equally wide
  general  ///< s · W h_j
};

struct LuongAttentionConfig {
  int64_t state = 0;
  int64_t memory = 0;
  LuongScore score = LuongScore::general;
};

/// Multiplicative scores (Luong et al. 2015 §3.1).
struct LuongAttention {
  LuongScore score = LuongScore::dot;
  std::optional<Linear> projection;  ///< Wᵀ: [memory, state], with `general`

  static LuongAttention create(const LuongAttentionConfig& config, Rng& rng);
  TracedAttention forward(const MemoryInputs& inputs, const ForwardPass& pass = {}) const;

  static void fields(auto&& visit) { visit("projection", &LuongAttention::projection); }
};

}  // namespace attend
