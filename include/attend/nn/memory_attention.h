#pragma once

#include "attend/nn/linear.h"
#include "attend/nn/multihead_attention.h"

// Attention of recurrent decoders: one or several decoder states attend to a memory of encoder states. The classes
// differ in their scores. Softmax, mask and weighted sum are those of the attention op: true means "may attend", and a
// state that may attend to nothing gets 0.
namespace attend {

/// The inputs of a forward pass. The output is [batch, memory_dim], or [batch, states, memory_dim] for several states.
/// The trace gives the weights as [batch, 1, states, length].
struct MemoryInputs {
  Tensor state;   ///< [batch, state_dim] or [batch, states, state_dim]
  Tensor memory;  ///< [batch, length, memory_dim]
  Tensor mask{};  ///< boolean [batch, length], true = may attend; empty: all true
};

struct BahdanauAttentionConfig {
  int64_t state = 0;      ///< width of the decoder state
  int64_t memory = 0;     ///< width of the encoder states
  int64_t state_dim = 0;  ///< width of W s and U h_j
};

/// Additive scores e_j = v · tanh(W s + U h_j) (Bahdanau et al. 2015). W is `query`, U is `key` and v is `score`; they
/// have no biases.
struct BahdanauAttention {
  Linear query, key, score;

  static BahdanauAttention create(const BahdanauAttentionConfig& config, Rng& rng);
  /// U h_j for all j. Pass the result to forward() to compute it only once for many states.
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
  dot,     ///< s · h_j; state and memory must have the same width
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
  std::optional<Linear> projection;  ///< Wᵀ [memory, state]; `general` only

  static LuongAttention create(const LuongAttentionConfig& config, Rng& rng);
  TracedAttention forward(const MemoryInputs& inputs, const ForwardPass& pass = {}) const;

  static void fields(auto&& visit) { visit("projection", &LuongAttention::projection); }
};

}  // namespace attend
