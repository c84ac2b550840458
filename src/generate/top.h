#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "attend/tensor/tensor.h"
#include "attend/text/tokenizer.h"

namespace attend {

/// A word that may come next.
struct Continuation {
  int32_t id = 0;
  float value = 0;  ///< its logit or log-probability
};

/// The largest `count` of some values with their places, in falling order; of equal ones those with smaller ids come
/// first. NaN is never among them. One pass that looks closer only at what beats the worst one kept.
void top_values(std::span<const float> values, int64_t count, std::vector<Continuation>& result);

/// What generation may write.
struct Vocabulary {
  int64_t words = 0;             ///< ids below this: a model's matrix may have more rows than the tokenizer has words
  std::vector<int32_t> banned;   ///< never written: pad, begin, mask and unknown (unless they are the end, too)
  int32_t begin = -1, end = -1;  ///< begin is what a decoder starts from: the end where there is no begin; -1: none

  /// Throws FormatError if the tokenizer does not fit the model's number of words.
  static Vocabulary of(const Tokenizer& tokenizer, int64_t model_words);
  bool is_banned(int32_t id) const;
};

/// The best `count` words that may be written for each row of values [rows, words]: fewer where the vocabulary has
/// fewer. Rows are shared out among threads.
std::vector<std::vector<Continuation>> top_continuations(const Tensor& values, int64_t count,
                                                         const Vocabulary& vocabulary);

}  // namespace attend
