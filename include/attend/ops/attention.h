#pragma once

#include <optional>
#include <vector>

#include "attend/base/random.h"
#include "attend/tensor/tensor.h"

namespace attend {

/// How query rows line up with keys when their counts differ: row i stands at position i (top_left), or at
/// i + keys − queries, so that the last query sees the last key (bottom_right, as when generating with a cache).
enum class Alignment { top_left, bottom_right };

/// One meaning of every mask: true = may attend. A row that may attend to nothing gives 0, and so do its gradients.
struct AttentionOptions {
  bool causal = false;  ///< key j only where j <= position of the query
  Alignment alignment = Alignment::top_left;
  int64_t window = 0;  ///< key j only where position − window < j, and j < position + window unless causal; 0 = off
  Tensor mask;         ///< boolean or u8, broadcast to [batch, heads, queries, keys]
  Tensor bias;         ///< added to the scores; broadcast likewise; differentiable
  Tensor lengths;      ///< i64 [batch]: keys from lengths[b] on are padding
  Tensor q_offsets;    ///< i64 [sequences + 1]: packed sequences along the length axis of a batch of 1
  Tensor k_offsets;    ///< the same for keys; needed with q_offsets
  Tensor alibi;        ///< [heads] slopes: −slope · |position − j| is added to the scores
  double softcap = 0;  ///< scores become cap · tanh(score / cap), before mask and biases; 0 = off
  std::optional<double> scale;  ///< default 1 / √head_dim
  double dropout = 0;           ///< probability of dropping a weight; kept ones are divided by 1 − p
  RandomStream random;          ///< which mask of dropout: the backward pass regenerates the same
};

/// softmax(scale · q kᵀ + bias, masked) v on [batch, heads, length, head_dim]. Strided views are read in place. k and v
/// may have fewer heads (a divisor of q's: grouped), v its own width. Memory is linear in the lengths.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options = {});

/// The output together with the log-sum-exp of each row's scores, [batch, heads, queries] (−inf for an empty row).
struct AttentionResult {
  Tensor output;
  Tensor lse;
};
AttentionResult attention_with_lse(const Tensor& q, const Tensor& k, const Tensor& v,
                                   const AttentionOptions& options = {});

/// Which weights to show. Empty lists mean all.
struct WeightSelection {
  std::vector<int64_t> heads;
  std::vector<int64_t> rows;
  int64_t top = 0;  ///< keep only the largest few of each row; 0 = all
};
struct AttentionWeights {
  Tensor values;  ///< [batch, heads, rows, keys], or [batch, heads, rows, top] in falling order
  Tensor places;  ///< with `top`: i64, the key of each value; empty otherwise
};
/// Exactly the weights the fused pass used, recomputed from q, k and its lse for what is asked and nothing else.
/// `options` must be those of the forward call.
AttentionWeights attention_weights(const Tensor& q, const Tensor& k, const Tensor& lse, const AttentionOptions& options,
                                   const WeightSelection& selection = {});

/// Attention as one first meets it: x[…, length, dim] is query, key and value at once; dot products, softmax, weighted
/// sum. No parameters, no scaling.
Tensor self_attention(const Tensor& x, bool causal = false);

}  // namespace attend
