#pragma once

#include <optional>
#include <span>
#include <vector>

#include "attend/ops/linear.h"
#include "attend/tensor/tensor.h"
#include "backend/kernels.h"

// Ops of text generation on a GPU. Nothing is recorded, and no op waits for the device.
namespace attend {

/// Copies numbers of the host to `target`, an i64 tensor of the same number of elements.
void upload_numbers(std::span<const int64_t> numbers, const Tensor& target);

/// embedding(ids, weight) for ids on the weight's device that are known to be in range.
Tensor embedding_unchecked(const Tensor& ids, const Tensor& weight);

/// embedding(ids, tokens) + embedding(positions, table), both without a check; ids and positions are [rows]. Without
/// `table`, embedding(ids, tokens).
Tensor embed_step(const Tensor& ids, const Tensor& tokens, const Tensor& positions, const Tensor& table);

/// Writes row i of x [rows, width] to row places[i] of `into` [any, width], which has x's dtype or is bf16.
void put_rows(const Tensor& x, const Tensor& places, const Tensor& into);

/// Rows order[0], order[1], … of x [rows, width], f32; known to be in range. `order` may be on the host.
Tensor take_rows(const Tensor& x, const Tensor& order);

/// Copies runs of rows: see GenerationKernels. `from` and `to` are [rows, width] and may be the same tensor.
void copy_runs(const Tensor& from, const Tensor& copies, int64_t longest, const Tensor& to);

/// For each row of logits [rows, words], f32: the two numbers of log_softmax_terms, its `count` largest values among
/// the first `words` columns, and their columns as f32: [rows, 2 + 2 · count]. See GenerationKernels::best.
Tensor best_logits(const Tensor& logits, int64_t words, int64_t count);

/// The weights of a norm.
struct NormWeights {
  Tensor weight, bias;
  double eps = 0;
  bool rms = false;
};
/// activation(linear(x, layer)) + residual.
struct LinearStep {
  LinearWeights layer;
  std::optional<UnaryKind> activation{};
  Tensor residual{};  ///< with the result's shape; empty: nothing is added
  Tensor into{};      ///< the result, a dense matrix; empty: a new tensor
  Tensor places{};    ///< i64 [rows]: the row of `into` for each row of the result; empty: in their order
};
/// All steps with the same x, whose rows are normed before if `norm` is given. A device computes them with as few
/// kernels as it can. x is […, in].
std::vector<Tensor> linear_steps(const Tensor& x, const std::optional<NormWeights>& norm,
                                 std::span<const LinearStep> steps);

/// Steps one after the other: the x of each is the result of the one before. Returns the last result; only the last
/// step may have `into`. A device may keep the results between them rounded, if the next product rounds its x.
Tensor linear_chain(const Tensor& x, const std::optional<NormWeights>& norm, std::span<const LinearStep> stages);

}  // namespace attend
