#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "attend/data/token_cache.h"
#include "attend/tensor/tensor.h"

namespace attend {

/// Text for a language model: labels[b, i] is the token that follows ids[b, i]. Both i64.
struct TextBatch {
  Tensor ids;          ///< [batch, context]
  Tensor labels;       ///< [batch, context]; -100 where nothing follows
  int64_t tokens = 0;  ///< labels that are not -100
};

struct WindowOptions {
  int64_t batch = 12;
  int64_t context = 64;
  std::vector<int32_t> separator;  ///< put after each example, as the end of a line; empty: they are one stream
  double from = 0,
         to = 1;  ///< the part of the stream to read, as shares of its tokens: 0 … 0.9 to train, 0.9 … 1 to test
  uint64_t seed = 0;
};

/// Column 0 of a cache as one long stream of tokens, read through windows. Nothing is copied but the windows.
class TextWindows {
 public:
  /// Keeps the cache open. Throws ShapeError for options out of range or a stream of fewer than two tokens.
  TextWindows(TokenCache cache, const WindowOptions& options);

  /// Windows at random places, a function of the seed and the step alone. Throws ShapeError unless the stream is longer
  /// than the context.
  TextBatch window(int64_t step) const;

  /// The stream from end to end in consecutive windows: each token but the first is a label exactly once. The last
  /// batch may have fewer rows and, in its last row, fewer labels.
  int64_t blocks() const;
  TextBatch block(int64_t index) const;

  int64_t tokens() const { return end_ - begin_; }  ///< of the stream's chosen part, separators included

 private:
  void read(int64_t position, std::span<int64_t> tokens) const;
  int64_t rows() const;

  TokenCache cache_;
  WindowOptions options_;
  std::vector<int64_t> starts_;  // of each example in the whole stream, and its end
  int64_t begin_ = 0, end_ = 0;
};

}  // namespace attend
