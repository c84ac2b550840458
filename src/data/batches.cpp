#include "attend/data/batches.h"

#include <algorithm>
#include <bit>

#include "attend/base/error.h"
#include "attend/tensor/creation.h"
#include "text/framing.h"

namespace attend {
namespace {

constexpr int64_t kNoLabel = -100;

/// A matrix of ids with one sequence in each row.
class Grid {
 public:
  Grid(int64_t rows, int64_t columns, int64_t fill)
      : tensor_(full({rows, columns}, static_cast<double>(fill), {DType::i64, kCpu})),
        cells_(tensor_.data<int64_t>()),
        columns_(columns) {}
  std::span<int64_t> row(size_t index) const {
    return cells_.subspan(index * static_cast<size_t>(columns_), static_cast<size_t>(columns_));
  }
  const Tensor& tensor() const { return tensor_; }

 private:
  Tensor tensor_;
  std::span<int64_t> cells_;
  int64_t columns_;
};

int64_t longest(const TokenCache& cache, std::span<const int64_t> examples, int64_t column) {
  int64_t length = 0;
  for (const int64_t example : examples) length = std::max(length, cache.length(example, column));
  return length;
}

void check_columns(const TokenCache& cache, std::span<const int64_t> examples, const char* op) {
  require<ShapeError>(cache.columns() == 2, op, ": expected a cache of 2 columns, got ", cache.columns());
  require<ShapeError>(!examples.empty(), op, ": expected at least one example");
}

Tensor vector_of(const std::vector<int64_t>& values) {
  return tensor<int64_t>(values, {static_cast<int64_t>(values.size())});
}

int64_t padded_length(int64_t length, const BatchPadding& padding) {
  const int64_t rounded = (length + padding.length_multiple - 1) / padding.length_multiple * padding.length_multiple;
  return padding.most_length > 0 ? std::max(length, std::min(rounded, padding.most_length)) : rounded;
}

}  // namespace

int64_t rounded_rows(int64_t rows) {
  if (rows < 1) return rows;
  const auto step = static_cast<int64_t>(std::max<uint64_t>(1, std::bit_floor(static_cast<uint64_t>(rows)) / 8));
  return (rows + step - 1) / step * step;
}

PairBatch pair_batch(const TokenCache& cache, std::span<const int64_t> examples, const SpecialTokens& special,
                     const BatchPadding& padding) {
  check_columns(cache, examples, "pair_batch");
  require<ShapeError>(special.end >= 0, "pair_batch: the vocabulary has no end token");
  const Frame frame = pair_frame(special);
  const int64_t begin = decoder_start(special), pad = std::max(special.pad, 0);
  const int64_t count = padding.rounds_rows ? rounded_rows(std::ssize(examples)) : std::ssize(examples);
  const int64_t extra = frame.size();
  const int64_t source_length = padded_length(longest(cache, examples, 0) + extra, padding),
                target_length = padded_length(longest(cache, examples, 1) + extra, padding);
  const Grid source(count, source_length, pad), target(count, target_length, pad),
      labels(count, target_length, kNoLabel);
  std::vector<int64_t> source_lengths, target_lengths;
  PairBatch batch;
  for (size_t i = 0; i < examples.size(); ++i) {
    const auto x = cache.sequence(examples[i], 0), y = cache.sequence(examples[i], 1);
    target.row(i)[0] = begin;
    if (extra == 2) source.row(i)[0] = target.row(i)[1] = labels.row(i)[0] = frame.before;
    *std::ranges::copy(x, source.row(i).begin() + extra - 1).out = frame.after;
    std::ranges::copy(y, target.row(i).begin() + extra);
    *std::ranges::copy(y, labels.row(i).begin() + extra - 1).out = frame.after;
    source_lengths.push_back(static_cast<int64_t>(x.size()) + extra);
    target_lengths.push_back(static_cast<int64_t>(y.size()) + extra);
    batch.source_tokens += source_lengths.back();
    batch.target_tokens += target_lengths.back();
  }
  source_lengths.resize(static_cast<size_t>(count), 1);
  target_lengths.resize(static_cast<size_t>(count), 1);
  batch.source = source.tensor();
  batch.source_lengths = vector_of(source_lengths);
  batch.target = target.tensor();
  batch.labels = labels.tensor();
  batch.target_lengths = vector_of(target_lengths);
  return batch;
}

ClassBatch class_batch(const TokenCache& cache, std::span<const int64_t> examples, const SpecialTokens& special,
                       const BatchPadding& padding) {
  check_columns(cache, examples, "class_batch");
  const int64_t count = padding.rounds_rows ? rounded_rows(std::ssize(examples)) : std::ssize(examples);
  const Grid ids(count, padded_length(longest(cache, examples, 0), padding), std::max(special.pad, 0));
  std::vector<int64_t> lengths, labels;
  ClassBatch batch;
  for (size_t i = 0; i < examples.size(); ++i) {
    const auto text = cache.sequence(examples[i], 0), label = cache.sequence(examples[i], 1);
    require<ShapeError>(label.size() == 1, "class_batch: example ", examples[i], " has ", label.size(),
                        " labels, expected 1");
    std::ranges::copy(text, ids.row(i).begin());
    lengths.push_back(static_cast<int64_t>(text.size()));
    labels.push_back(label[0]);
    batch.tokens += lengths.back();
  }
  lengths.resize(static_cast<size_t>(count), 1);
  labels.resize(static_cast<size_t>(count), kNoLabel);
  batch.ids = ids.tensor();
  batch.lengths = vector_of(lengths);
  batch.labels = vector_of(labels);
  return batch;
}

}  // namespace attend
