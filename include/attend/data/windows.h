#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "attend/data/token_cache.h"
#include "attend/tensor/tensor.h"

namespace attend {

/// A batch of text for a language model: labels[b, i] is the token after ids[b, i]. Both tensors are i64.
struct TextBatch {
  Tensor ids;          ///< [batch, context]
  Tensor labels;       ///< [batch, context]; -100 if no token follows
  int64_t tokens = 0;  ///< labels that are not -100
};

struct WindowOptions {
  int64_t batch = 12;
  int64_t context = 64;
  std::vector<int32_t> separator;  ///< tokens after each example, such as an end token; may be empty
  /// The part of the stream to read, as fractions of its tokens: 0 … 0.9 for training, 0.9 … 1 for validation.
  double from = 0, to = 1;
  uint64_t seed = 0;
};

/// Column 0 of a cache as one stream of tokens, read in windows. Copies only the windows.
class TextWindows {
 public:
  /// Keeps the cache open. Throws ShapeError if an option is out of range or the stream has fewer than two tokens.
  TextWindows(TokenCache cache, const WindowOptions& options);

  /// A batch of windows at random positions, which depend only on the seed and the step. Throws ShapeError unless the
  /// stream is longer than the context.
  TextBatch window(int64_t step) const;

  /// Number of batches of consecutive windows that cover the stream. Each token except the first is a label exactly
  /// once. The last batch may have fewer rows, and its last row fewer labels.
  int64_t blocks() const;
  TextBatch block(int64_t index) const;

  int64_t tokens() const { return end_ - begin_; }  ///< tokens in the selected part, including separators

 private:
  void read(int64_t position, std::span<int64_t> tokens) const;
  int64_t rows() const;

  TokenCache cache_;
  WindowOptions options_;
  std::vector<int64_t> starts_;  // start of each example in the whole stream, then its end
  int64_t begin_ = 0, end_ = 0;
};

}  // namespace attend
