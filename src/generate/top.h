#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "attend/generate/vocabulary.h"
#include "attend/tensor/tensor.h"

namespace attend {

/// A word that may come next.
struct Continuation {
  int32_t id = 0;
  float value = 0;  ///< its logit or log-probability
};

/// What turns the logits of one row into log-probabilities.
struct LogTerms {
  float shift = 0, log_sum = 0;

  /// Those of a row of log_softmax_terms.
  static LogTerms of(std::span<const float> terms, int64_t row) {
    const auto place = 2 * static_cast<size_t>(row);
    return {terms[place], terms[place + 1]};
  }
  float log_probability(float logit) const { return logit - shift - log_sum; }
};

/// The largest `count` of some values with their places, in falling order; of equal ones those with smaller ids come
/// first. NaN is never among them. One pass that looks closer only at what beats the worst one kept.
void top_values(std::span<const float> values, int64_t count, std::vector<Continuation>& result);

/// The same among the tokens that may be written: fewer than `count` if the vocabulary has fewer.
void top_allowed(std::span<const float> values, int64_t count, const Vocabulary& vocabulary,
                 std::vector<Continuation>& result);

}  // namespace attend
