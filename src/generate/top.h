#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "attend/generate/vocabulary.h"
#include "attend/tensor/tensor.h"

namespace attend {

/// A candidate for the next token.
struct Continuation {
  int32_t id = 0;
  float value = 0;  ///< logit or log-probability
};

/// The terms that convert the logits of one row to log-probabilities.
struct LogTerms {
  float shift = 0, log_sum = 0;

  /// The terms of a row in the result of log_softmax_terms.
  static LogTerms of(std::span<const float> terms, int64_t row, size_t stride = 2) {
    const auto place = stride * static_cast<size_t>(row);
    return {terms[place], terms[place + 1]};
  }
  float log_probability(float logit) const { return logit - shift - log_sum; }
};

/// The `count` largest values and their indices, in descending order; smaller indices first if values are equal.
/// Ignores NaN. Makes one pass and compares each value only with the smallest value kept so far.
void top_values(std::span<const float> values, int64_t count, std::vector<Continuation>& result);

/// top_values() among the tokens that are not banned; fewer than `count` if the vocabulary is smaller.
void top_allowed(std::span<const float> values, int64_t count, const Vocabulary& vocabulary,
                 std::vector<Continuation>& result);

}  // namespace attend
