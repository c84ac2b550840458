#pragma once

#include <optional>
#include <vector>

#include "attend/base/random.h"
#include "attend/tensor/tensor.h"

namespace attend {

/// The position of query i among the keys if there are fewer queries than keys, or more. top_left: position i.
/// bottom_right: position i + keys − queries, so that the last query sees the last key, as in generation with a cache.
enum class Alignment { top_left, bottom_right };

/// In every mask, true means "may attend". A query that may attend to no key has output 0 and gradient 0.
struct AttentionOptions {
  bool causal = false;  ///< the query at position i sees only keys j <= i
  Alignment alignment = Alignment::top_left;
  int64_t window = 0;  ///< the query at position i sees only keys i − window < j < i + window; 0 = off
  Tensor mask;         ///< boolean or u8, broadcast to [batch, heads, queries, keys]
  Tensor bias;         ///< added to the scores; broadcast like `mask`; differentiable
  Tensor lengths;      ///< i64 [batch]: keys from lengths[b] on are padding; checked if they are on the host
  Tensor q_offsets;    ///< i64 [sequences + 1]: packed sequences along the length axis of a batch of 1
  Tensor k_offsets;    ///< the same for keys; required with q_offsets
  Tensor alibi;        ///< slopes [heads]: −slope · |i − j| is added to the score of query position i and key j
  double softcap = 0;  ///< scores become softcap · tanh(score / softcap), before mask and biases; 0 = off
  std::optional<double> scale;  ///< default 1 / √head_dim
  double dropout = 0;           ///< probability p of dropping a weight; the other weights are divided by 1 − p
  RandomStream random;          ///< stream of the dropout mask; the backward pass regenerates the mask from it
};

/// softmax(scale · q kᵀ + bias, masked) v on [batch, heads, length, head_dim]. Strided views are read in place. k and v
/// may have fewer heads than q (grouped heads: a divisor of q's number), and v may have its own head_dim. Memory is
/// linear in the lengths. Throws ShapeError or DeviceError if the inputs do not fit together.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options = {});

struct AttentionResult {
  Tensor output;
  Tensor lse;  ///< log-sum-exp of each query's scores, [batch, heads, queries]; −inf if the query sees no key
};
/// attention() that also returns the log-sum-exp.
AttentionResult attention_with_lse(const Tensor& q, const Tensor& k, const Tensor& v,
                                   const AttentionOptions& options = {});

/// Selects attention weights. An empty list selects all.
struct WeightSelection {
  std::vector<int64_t> heads;
  std::vector<int64_t> rows;  ///< query indices
  int64_t top = 0;            ///< number of largest weights to return per row; 0 = all
};
struct AttentionWeights {
  Tensor values;  ///< [batch, heads, rows, keys], or [batch, heads, rows, top] in descending order
  Tensor places;  ///< with `top`: i64, the key index of each value; empty otherwise
};
/// The attention weights that the forward pass used. Recomputes only the selected weights, from q, k and the forward
/// pass's lse. `options` must be the options of the forward call. Not recorded.
AttentionWeights attention_weights(const Tensor& q, const Tensor& k, const Tensor& lse, const AttentionOptions& options,
                                   const WeightSelection& selection = {});

/// Attention in its simplest form: x[…, length, dim] is query, key and value. Computes dot products, softmax and the
/// weighted sum, without parameters or scaling.
Tensor self_attention(const Tensor& x, bool causal = false);

}  // namespace attend
