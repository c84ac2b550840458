#include <algorithm>
#include <limits>

#include "generate/numbers.h"
#include "generate/writer.h"

namespace attend {

LogTerms StepRows::terms_of(int64_t row) const { return LogTerms::of(terms, row, term_stride); }

std::span<const float> StepRows::best_values(int64_t row) const {
  return terms.subspan(static_cast<size_t>(row) * term_stride + 2, static_cast<size_t>(best_count));
}

std::span<const float> StepRows::best_ids(int64_t row) const {
  const auto count = static_cast<size_t>(best_count);
  return terms.subspan(static_cast<size_t>(row) * term_stride + 2 + count, count);
}

void StepRows::best_of(int64_t row, int64_t count, const Vocabulary& vocabulary,
                       std::vector<Continuation>& result) const {
  if (has_all()) return top_allowed(logits_of(row, vocabulary.size), count, vocabulary, result);
  result.clear();
  const std::span<const float> values = best_values(row), ids = best_ids(row);
  for (size_t i = 0; i < values.size() && std::ssize(result) < count; ++i) {
    const auto id = static_cast<int32_t>(ids[i]);
    if (id >= 0 && !vocabulary.is_banned(id)) result.push_back({id, values[i]});
  }
}

void StepRows::require_numbers(int64_t row, const char* op) const {
  const float logit = has_all() ? logits[static_cast<size_t>(row) * stride] : best_values(row)[0];
  require_number(terms_of(row).log_probability(logit), op);
}

std::span<const float> StepRows::logits_of(int64_t row, int64_t vocab_size) const {
  return logits.subspan(static_cast<size_t>(row) * stride, static_cast<size_t>(vocab_size));
}

void StepRows::log_probabilities_of(int64_t row, int64_t vocab_size, std::vector<float>& result) const {
  const LogTerms own = terms_of(row);
  result.clear();
  for (const float logit : logits_of(row, vocab_size)) result.push_back(own.log_probability(logit));
}

double StepRows::log_probability(int64_t row, int32_t id) const {
  if (has_all())
    return terms_of(row).log_probability(logits[static_cast<size_t>(row) * stride + static_cast<size_t>(id)]);
  const std::span<const float> ids = best_ids(row);
  const auto found = std::ranges::find(ids, static_cast<float>(id));
  require<Error>(found != ids.end(), "generate: token ", id, " is not among the best");
  return terms_of(row).log_probability(best_values(row)[static_cast<size_t>(found - ids.begin())]);
}

}  // namespace attend
