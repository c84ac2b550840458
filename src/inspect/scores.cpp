#include "inspect/scores.h"

#include <cmath>
#include <limits>

#include "attend/ops/activation.h"
#include "attend/ops/arithmetic.h"
#include "attend/ops/linear.h"
#include "attend/ops/matmul.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"

namespace attend {
namespace {

/// Some rows of one head, [rows, keys]. `x` must broadcast to [1, heads, queries, keys].
std::vector<float> broadcast_rows(const Tensor& x, const RunAttention& attention, int64_t head, RowRange rows) {
  const Tensor all = expand(x, {1, attention.heads(), attention.queries(), attention.keys()});
  return slice(select(select(all, 0, 0), 0, head), 0, rows.begin, rows.end).to_vector<float>();
}

/// The position of the first query among the keys.
int64_t first_position(const RunAttention& attention) {
  return attention.trace.options.alignment == Alignment::bottom_right ? attention.keys() - attention.queries() : 0;
}

bool may_look(const AttentionOptions& options, int64_t position, int64_t key) {
  if (options.causal && key > position) return false;
  if (options.window > 0 && key <= position - options.window) return false;
  return options.window == 0 || options.causal || key < position + options.window;
}

/// x in f32 if it has 16 bits, so that the scores are not rounded to 16 bits.
Tensor widened(const Tensor& x) { return size_of(x.dtype()) == 2 ? to(x, DType::f32) : x; }

std::vector<float> dot_scores(const RunAttention& attention, int64_t head, RowRange rows) {
  const Tensor q = widened(slice(head_rows(attention.trace.q, head, attention.heads()), 0, rows.begin, rows.end));
  const Tensor k = widened(head_rows(attention.trace.k, head, attention.heads()));
  std::vector<float> scores = (matmul(q, transpose(k, 0, 1)) * attention.scale()).to_vector<float>();
  if (const double cap = attention.trace.options.softcap; cap > 0) {
    for (float& score : scores) score = static_cast<float>(cap * std::tanh(static_cast<double>(score) / cap));
  }
  return scores;
}

}  // namespace

Tensor head_rows(const Tensor& x, int64_t head, int64_t heads) {
  return select(select(x, 0, 0), 0, head / (heads / x.dim(1)));
}

Tensor additive_scores(const RunAttention& attention, int64_t row) {
  const Tensor states = slice(select(attention.trace.q, 1, 0), 1, row, row + 1);  // [1, 1, hidden]
  const Tensor keys = select(attention.trace.k, 1, 0);                            // [1, keys, hidden]
  const Tensor mixed = tanh(unsqueeze(states, 2) + unsqueeze(keys, 1));           // [1, 1, keys, hidden]
  return reshape(linear(mixed, unsqueeze(attention.additive, 0)), {-1});
}

std::vector<float> scores_of(const RunAttention& attention, int64_t head, RowRange rows) {
  const AttentionOptions& options = attention.trace.options;
  const int64_t keys = attention.keys(), first = first_position(attention);
  std::vector<float> scores;
  if (attention.additive) {
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const auto one = additive_scores(attention, row).to_vector<float>();
      scores.insert(scores.end(), one.begin(), one.end());
    }
  } else {
    scores = dot_scores(attention, head, rows);
  }
  std::vector<float> bias, mask;
  if (options.bias) bias = broadcast_rows(options.bias, attention, head, rows);
  if (options.mask) mask = broadcast_rows(to(options.mask, DType::f32), attention, head, rows);
  const double slope = options.alibi ? options.alibi.to_vector<double>()[static_cast<size_t>(head)] : 0;
  const int64_t length = options.lengths ? options.lengths.to_vector<int64_t>()[0] : keys;
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    for (int64_t key = 0; key < keys; ++key) {
      const auto at = static_cast<size_t>((row - rows.begin) * keys + key);
      const int64_t position = first + row;
      if (!bias.empty()) scores[at] += bias[at];
      if (slope != 0) scores[at] -= static_cast<float>(slope * static_cast<double>(std::abs(position - key)));
      const bool is_hidden = key >= length || (!mask.empty() && mask[at] == 0) || !may_look(options, position, key);
      if (is_hidden) scores[at] = -std::numeric_limits<float>::infinity();
    }
  }
  return scores;
}

}  // namespace attend
