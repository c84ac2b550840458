#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "attend/data/token_cache.h"
#include "attend/tensor/tensor.h"
#include "attend/text/tokenizer.h"

namespace attend {

struct BatchOptions {
  int64_t tokens = 4096;   ///< maximum batch size in tokens, including padding: examples · longest length ≤ tokens
  int64_t sentences = 0;   ///< maximum number of examples per batch; 0: no limit
  int64_t max_length = 0;  ///< longer examples are left out; 0: no limit
  bool labelled = false;   ///< column 1 is a label, not a text; only column 0 counts for the length
  bool shuffle = true;     ///< false: shortest examples first, the same order in every epoch
  uint64_t seed = 0;
};

/// The batches of one epoch. Each batch is a list of example indices.
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

/// Groups examples of similar length into batches. The length of a pair is max(source, target) + 1, with the end token
/// that pair_batch adds. The length of an example with one column, or of labelled text, is the length of column 0. An
/// example longer than `tokens` is a batch of its own.
///
/// The batches of an epoch depend only on the cache, the options and the epoch's number. To resume training, continue
/// at the same batch of the same epoch. All epochs have the same number of batches.
class BatchPlan {
 public:
  /// Plans batches of the given examples of the cache. Throws ShapeError if an option is out of range or no example is
  /// left, and FormatError if the cache is damaged.
  BatchPlan(const TokenCache& cache, std::span<const int64_t> examples, const BatchOptions& options);
  /// Plans batches of all examples.
  BatchPlan(const TokenCache& cache, const BatchOptions& options);

  Batches epoch(int64_t number) const;
  int64_t batches() const { return static_cast<int64_t>(starts_.size()) - 1; }  ///< per epoch
  int64_t examples() const { return static_cast<int64_t>(examples_.size()); }
  int64_t left_out() const { return left_out_; }  ///< number of examples longer than max_length

 private:
  BatchOptions options_;
  std::vector<int64_t> examples_;  // sorted by length
  std::vector<int64_t> groups_;    // start of each group of similar lengths, then the end
  std::vector<int64_t> starts_;    // start of each batch, then the end
  int64_t left_out_ = 0;
};

/// A batch of pairs for an encoder and a decoder. All tensors are i64 and padded on the right.
struct PairBatch {
  Tensor source;                                 ///< [batch, source length]: x, end
  Tensor source_lengths;                         ///< [batch]
  Tensor target;                                 ///< decoder input [batch, target length]: begin, y
  Tensor labels;                                 ///< expected output [batch, target length]: y, end; -100 on padding
  Tensor target_lengths;                         ///< [batch]
  int64_t source_tokens = 0, target_tokens = 0;  ///< without padding, with the end token
};
/// Padding beyond the longest example, so that batches have few different shapes.
struct BatchPadding {
  int64_t length_multiple = 1;  ///< lengths are rounded up to a multiple of it,
  int64_t most_length = 0;      ///< but not above this length; 0: no limit
  bool rounds_rows = false;     ///< the number of examples is rounded up by rounded_rows()
};
/// A number of rows, rounded up to one of eight sizes for each power of two.
int64_t rounded_rows(int64_t rows);

/// A batch of the given examples, from columns 0 and 1. The decoder starts from `end` if the vocabulary has no `begin`.
/// Padding is 0 if the vocabulary has no `pad`. Throws ShapeError if the vocabulary has no `end` or the cache does not
/// have two columns. Rows that `padding` adds have sources of length 1 and ignored labels.
PairBatch pair_batch(const TokenCache& cache, std::span<const int64_t> examples, const SpecialTokens& special,
                     const BatchPadding& padding = {});

/// A batch of texts and their classes. All tensors are i64.
struct ClassBatch {
  Tensor ids;      ///< [batch, length], padded on the right
  Tensor lengths;  ///< [batch]
  Tensor labels;   ///< class numbers [batch]
  int64_t tokens = 0;
};
/// A batch of the given examples: texts from column 0, classes from column 1. Throws ShapeError if column 1 does not
/// have exactly one number. Rows that `padding` adds have length 1 and the label -100.
ClassBatch class_batch(const TokenCache& cache, std::span<const int64_t> examples, const SpecialTokens& special,
                       const BatchPadding& padding = {});

}  // namespace attend
