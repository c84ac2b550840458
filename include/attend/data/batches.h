#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "attend/data/token_cache.h"
#include "attend/tensor/tensor.h"
#include "attend/text/tokenizer.h"

namespace attend {

struct BatchOptions {
  int64_t tokens = 4096;   ///< most places of a batch's longer side, padding included: examples · longest ≤ tokens
  int64_t sentences = 0;   ///< most examples of a batch; 0: no limit
  int64_t max_length = 0;  ///< examples with a longer side are left out; 0: no limit
  bool labelled = false;   ///< column 1 is a label, not a text: only column 0 has a length
  bool shuffle = true;     ///< false: shortest first, the same in every epoch
  uint64_t seed = 0;
};

/// The batches of one epoch: each a list of numbers of examples.
class Batches {
 public:
  int64_t size() const { return static_cast<int64_t>(starts_.size()) - 1; }
  std::span<const int64_t> operator[](int64_t batch) const;

 private:
  friend class BatchPlan;
  std::vector<int64_t> examples_;
  std::vector<int64_t> starts_{0};
  std::vector<int64_t> order_;
};

/// Puts examples of like length together. The length of an example is that of its longer side as the model sees it,
/// with the end mark that pair_batch adds: max(source, target) + 1 for pairs, the length itself for one column or
/// labelled text. An example that alone exceeds `tokens` makes a batch of its own.
///
/// What an epoch gives depends on the cache, the options and the epoch's number alone, so to resume is to ask for the
/// same epoch and to go on at the same batch. All epochs have equally many batches.
class BatchPlan {
 public:
  /// Of the given examples of the cache. Throws ShapeError for options below their least values, or if no example is
  /// left; FormatError is the cache's own.
  BatchPlan(const TokenCache& cache, std::span<const int64_t> examples, const BatchOptions& options);
  /// Of all of them.
  BatchPlan(const TokenCache& cache, const BatchOptions& options);

  Batches epoch(int64_t number) const;
  int64_t batches() const { return static_cast<int64_t>(starts_.size()) - 1; }  ///< in each epoch
  int64_t examples() const { return static_cast<int64_t>(examples_.size()); }
  int64_t left_out() const { return left_out_; }  ///< longer than max_length

 private:
  BatchOptions options_;
  std::vector<int64_t> examples_;  // by length
  std::vector<int64_t> groups_;    // where each run of examples of like lengths begins, and the end
  std::vector<int64_t> starts_;    // where each batch begins, and the end
  int64_t left_out_ = 0;
};

/// Pairs for an encoder and a decoder, all i64, padded on the right.
struct PairBatch {
  Tensor source;          ///< [batch, source length]: x, end
  Tensor source_lengths;  ///< [batch]
  Tensor target;          ///< [batch, target length]: begin, y: what the decoder reads
  Tensor labels;          ///< [batch, target length]: y, end: what it should answer; -100 on padding
  Tensor target_lengths;  ///< [batch]
  int64_t source_tokens = 0, target_tokens = 0;  ///< without padding, with the end mark
};
/// Columns 0 and 1 of the chosen examples. A vocabulary without `begin` starts the decoder from `end`, and one without
/// `pad` is padded with 0. Throws ShapeError if it has no `end` or the cache not two columns.
PairBatch pair_batch(const TokenCache& cache, std::span<const int64_t> examples, const SpecialTokens& special);

/// Texts with a class each, all i64.
struct ClassBatch {
  Tensor ids;      ///< [batch, length], padded on the right
  Tensor lengths;  ///< [batch]
  Tensor labels;   ///< [batch]: class numbers
  int64_t tokens = 0;
};
/// Column 0 as it is, and the one number of column 1. Throws ShapeError if that is not one number.
ClassBatch class_batch(const TokenCache& cache, std::span<const int64_t> examples, const SpecialTokens& special);

}  // namespace attend
