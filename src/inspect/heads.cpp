#include "attend/inspect/heads.h"

#include <algorithm>
#include <cmath>

#include "attend/autograd/autograd.h"
#include "attend/base/error.h"
#include "attend/base/threads.h"
#include "attend/ops/arithmetic.h"
#include "attend/ops/matmul.h"
#include "attend/ops/reduce.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"
#include "inspect/summaries.h"

namespace attend {
namespace {

constexpr int64_t kFigureRows = 1024, kRolloutTokens = 2048, kAlignedPairs = kRolloutTokens * kRolloutTokens;

HeadFigures row_figures(std::span<const float> weights, int64_t row) {
  HeadFigures result{.entropy = entropy_of(weights)};
  float peak = 0;
  for (size_t key = 0; key < weights.size(); ++key) {
    const auto distance = std::abs(static_cast<double>(row) - static_cast<double>(key));
    result.distance += static_cast<double>(weights[key]) * distance;
    peak = std::max(peak, weights[key]);
  }
  result.peak = static_cast<double>(peak);
  return result;
}

/// Figures of all heads of one attention module, over every n-th row of a long text.
std::vector<HeadFigures> figures_of(const RunAttention& attention) {
  const int64_t heads = attention.heads(), keys = attention.keys(), queries = attention.queries();
  std::vector<HeadFigures> sums(static_cast<size_t>(heads));
  int64_t rows = 0;
  const auto visit = [&](RowRange range, std::span<const float> weights) {
    const int64_t count = range.end - range.begin;
    std::vector<HeadFigures> each(static_cast<size_t>(heads * count));
    parallel_for(heads * count, [&](int64_t i) {
      each[static_cast<size_t>(i)] = row_figures(
          weights.subspan(static_cast<size_t>(i * keys), static_cast<size_t>(keys)), range.begin + i % count);
    });
    for (int64_t i = 0; i < heads * count; ++i) {
      HeadFigures& sum = sums[static_cast<size_t>(i / count)];
      sum.entropy += each[static_cast<size_t>(i)].entropy;
      sum.distance += each[static_cast<size_t>(i)].distance;
      sum.peak += each[static_cast<size_t>(i)].peak;
    }
    rows += count;
  };
  if (queries <= kFigureRows) {
    sweep_rows(attention, {}, {0, queries}, visit);
  } else {
    for (int64_t i = 0; i < kFigureRows; ++i) {
      const int64_t row = i * queries / kFigureRows;
      sweep_rows(attention, {}, {row, row + 1}, visit);
    }
  }
  for (HeadFigures& sum : sums) {
    sum.entropy /= static_cast<double>(rows), sum.distance /= static_cast<double>(rows);
    sum.peak /= static_cast<double>(rows);
  }
  return sums;
}

Tensor identity(int64_t size) {
  std::vector<float> values(static_cast<size_t>(size * size));
  for (int64_t i = 0; i < size; ++i) values[static_cast<size_t>(i * size + i)] = 1;
  return tensor<float>(values, {size, size});
}

/// Adds `share` times the mean weights, [queries, keys], of one head or of all heads to `sum`.
void add_mean(const RunAttention& attention, std::optional<int64_t> head, double share, std::vector<double>& sum) {
  if (head) check_head(attention, *head);
  const std::vector<int64_t> heads = head ? std::vector{*head} : std::vector<int64_t>{};
  const int64_t count = head ? 1 : attention.heads(), keys = attention.keys();
  sweep_rows(attention, heads, {0, attention.queries()}, [&](RowRange rows, std::span<const float> weights) {
    const int64_t size = (rows.end - rows.begin) * keys;
    for (int64_t i = 0; i < count * size; ++i) {
      sum[static_cast<size_t>(rows.begin * keys + i % size)] +=
          share / static_cast<double>(count) * static_cast<double>(weights[static_cast<size_t>(i)]);
    }
  });
}

int64_t pairs(const RunAttention& attention) { return attention.queries() * attention.keys(); }

}  // namespace

std::vector<HeadFigures> head_figures(const Run& run) {
  std::vector<HeadFigures> result;
  for (size_t a = 0; a < run.attention.size(); ++a) {
    std::vector<HeadFigures> heads = figures_of(run.attention[a]);
    for (size_t h = 0; h < heads.size(); ++h) {
      heads[h].attention = static_cast<int64_t>(a);
      heads[h].head = static_cast<int64_t>(h);
      result.push_back(heads[h]);
    }
  }
  return result;
}

Tensor rollout(const Run& run, std::string_view stack) {
  const NoGrad scope;
  Tensor result;
  for (const RunAttention& attention : run.attention) {
    if (attention.stack != stack || attention.is_cross) continue;
    const int64_t length = attention.queries();
    require<ShapeError>(length <= kRolloutTokens, "rollout: at most ", kRolloutTokens, " tokens, got ", length);
    const Tensor mean_weights = select(mean(to(to(attention.weights({}, {0, length}), DType::f32), kCpu), 1), 0, 0);
    const Tensor mixed = mean_weights * 0.5 + identity(length) * 0.5;
    const Tensor rows = mixed / sum(mixed, 1, true);
    result = result ? matmul(rows, result) : rows;
  }
  require<ShapeError>(static_cast<bool>(result), "rollout: the stack '", stack, "' has no self-attention");
  return result;
}

bool has_alignment(const Run& run) {
  const auto cross = std::ranges::find_if(run.attention, &RunAttention::is_cross);
  return cross != run.attention.end() && pairs(*cross) <= kAlignedPairs;
}

WordAlignment alignment_of(const Run& run, const Tokenizer& tokenizer, const AlignOptions& options) {
  std::vector<const RunAttention*> layers;
  for (const RunAttention& attention : run.attention) {
    if (attention.is_cross) layers.push_back(&attention);
  }
  require<Error>(!layers.empty(), "align: this model has no cross-attention, so there is no alignment");
  require<ShapeError>(pairs(*layers[0]) <= kAlignedPairs, "align: at most ", kAlignedPairs, " pairs of tokens, got ",
                      layers[0]->queries(), " × ", layers[0]->keys());
  require<ShapeError>(!options.layer || (*options.layer >= 0 && *options.layer < std::ssize(layers)),
                      "align: there is no layer ", options.layer.value_or(0), "; the model has ", layers.size(),
                      ", counted from 0");
  if (options.layer) layers = {layers[static_cast<size_t>(*options.layer)]};
  std::vector<double> weights(static_cast<size_t>(pairs(*layers[0])));
  for (const RunAttention* layer : layers) {
    add_mean(*layer, options.head, 1.0 / static_cast<double>(layers.size()), weights);
  }
  return align_words(tokenizer, run.sides[0].text, run.sides[1].text, weights);
}

}  // namespace attend
