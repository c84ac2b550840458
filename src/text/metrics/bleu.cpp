#include "attend/text/bleu.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <iomanip>
#include <unordered_map>
#include <utility>

#include "attend/base/error.h"
#include "io/printable.h"
#include "text/metrics/bleu_words.h"
#include "text/metrics/ngrams.h"
#include "text/metrics/segments.h"

namespace attend {
namespace {

constexpr std::array<std::pair<std::string_view, BleuSmoothing>, 4> kSmoothings{{{"none", BleuSmoothing::none},
                                                                                 {"floor", BleuSmoothing::floor},
                                                                                 {"add-k", BleuSmoothing::add_k},
                                                                                 {"exp", BleuSmoothing::exponential}}};

void check(const BleuOptions& options) {
  require<ShapeError>(options.max_order >= 1, "bleu: expected max_order ≥ 1, got ", options.max_order);
}

double smoothing_value(const BleuOptions& options) {
  return options.smoothing_value.value_or(options.smoothing == BleuSmoothing::floor ? 0.1 : 1.0);
}

/// Numbers the words of a sentence and its references.
class Words {
 public:
  explicit Words(const BleuOptions& options) : options_(options) {}
  std::vector<uint32_t> of(std::string_view sentence) {
    texts_.push_back(metric::tokenize(metric::decode(sentence, options_.lowercase), options_.tokenizer));
    std::vector<uint32_t> numbers;
    for (const std::u32string_view word : metric::split_at_space(texts_.back())) {
      numbers.push_back(known_.emplace(word, static_cast<uint32_t>(known_.size())).first->second);
    }
    return numbers;
  }

 private:
  const BleuOptions& options_;
  std::deque<std::u32string> texts_;  // known_ refers to these strings
  std::unordered_map<std::u32string_view, uint32_t> known_;
};

/// The reference length closest to the length of the hypothesis; the shorter one if two are equally close.
int64_t closest_length(int64_t length, const std::vector<std::vector<uint32_t>>& sentences) {
  int64_t closest = -1;
  for (size_t i = 1; i < sentences.size(); ++i) {
    const auto other = static_cast<int64_t>(sentences[i].size());
    const int64_t gain = closest < 0 ? 1 : std::abs(length - closest) - std::abs(length - other);
    if (gain > 0 || (gain == 0 && other < closest)) closest = other;
  }
  return closest;
}

/// Counts matching n-grams. The count of an n-gram in the hypothesis (sequence 0) is clipped to its largest count in
/// any one reference.
int64_t clipped_matches(const NGrams& grams) {
  std::vector<int64_t> most(grams.count()), present(grams.count());
  for (size_t reference = 1; reference < grams.sequences(); ++reference) {
    std::ranges::fill(present, 0);
    for (const uint32_t gram : grams.of(reference)) most[gram] = std::max(most[gram], ++present[gram]);
  }
  int64_t matches = 0;
  for (const uint32_t gram : grams.of(0)) matches += most[gram]-- > 0 ? 1 : 0;
  return matches;
}

BleuStatistics measure(std::string_view hypothesis, const std::vector<std::string_view>& references,
                       const BleuOptions& options) {
  Words words(options);
  std::vector<std::vector<uint32_t>> sentences{words.of(hypothesis)};
  for (const std::string_view reference : references) sentences.push_back(words.of(reference));
  BleuStatistics result;
  result.hypothesis_length = static_cast<int64_t>(sentences[0].size());
  result.reference_length = closest_length(result.hypothesis_length, sentences);
  thread_local NGrams grams;
  grams.start(std::move(sentences));
  for (int64_t order = 1; order <= options.max_order; ++order) {
    if (order > 1) grams.next_order();
    result.matches.push_back(clipped_matches(grams));
    result.totals.push_back(static_cast<int64_t>(grams.of(0).size()));
  }
  return result;
}

double brevity_penalty(const BleuStatistics& statistics) {
  if (statistics.hypothesis_length >= statistics.reference_length) return 1;
  if (statistics.hypothesis_length == 0) return 0;
  return std::exp(1 -
                  static_cast<double>(statistics.reference_length) / static_cast<double>(statistics.hypothesis_length));
}

/// Computes the precisions. Returns the number of orders that the mean is taken over.
int64_t smoothed_precisions(const BleuStatistics& statistics, const BleuOptions& options,
                            std::vector<double>& precisions) {
  int64_t used = options.max_order;
  double divisor = 1;  // for exponential smoothing: 2, 4, 8 …
  for (int64_t order = 1; order <= options.max_order; ++order) {
    const auto at = static_cast<size_t>(order - 1);
    const double added = options.smoothing == BleuSmoothing::add_k && order > 1 ? smoothing_value(options) : 0;
    const double matches = static_cast<double>(statistics.matches[at]) + added;
    const double total = static_cast<double>(statistics.totals[at]) + added;
    if (total == 0) break;
    if (options.effective_order) used = order;
    if (matches > 0)
      precisions[at] = 100 * matches / total;
    else if (options.smoothing == BleuSmoothing::exponential)
      precisions[at] = 100 / ((divisor *= 2) * total);
    else if (options.smoothing == BleuSmoothing::floor)
      precisions[at] = 100 * smoothing_value(options) / total;
  }
  return used;
}

}  // namespace

BleuSmoothing bleu_smoothing(std::string_view name) {
  const auto found = std::ranges::find(kSmoothings, name, &std::pair<std::string_view, BleuSmoothing>::first);
  require<Error>(found != kSmoothings.end(), "bleu: expected the smoothing exp, floor, add-k or none, got ",
                 in_quotes(name));
  return found->second;
}

BleuStatistics& BleuStatistics::operator+=(const BleuStatistics& other) {
  matches.resize(std::max(matches.size(), other.matches.size()));
  totals.resize(matches.size());
  for (size_t i = 0; i < other.matches.size(); ++i) {
    matches[i] += other.matches[i];
    totals[i] += other.totals[i];
  }
  hypothesis_length += other.hypothesis_length;
  reference_length += other.reference_length;
  return *this;
}

BleuStatistics bleu_statistics(std::string_view hypothesis, std::span<const std::string> references,
                               const BleuOptions& options) {
  check(options);
  const std::vector<std::string_view> found = metric::given(references);
  require<ShapeError>(!found.empty(), "bleu: the sentence has no reference");
  return measure(hypothesis, found, options);
}

BleuScore bleu_score(const BleuStatistics& statistics, const BleuOptions& options) {
  check(options);
  BleuScore result{.statistics = statistics, .brevity_penalty = brevity_penalty(statistics)};
  const auto orders = static_cast<size_t>(options.max_order);
  result.statistics.matches.resize(orders);
  result.statistics.totals.resize(orders);
  result.precisions.assign(orders, 0);
  const bool any_match = std::ranges::any_of(result.statistics.matches, [](int64_t count) { return count > 0; });
  if (!any_match) return result;
  const int64_t used = smoothed_precisions(result.statistics, options, result.precisions);
  double logarithms = 0;
  for (int64_t i = 0; i < used; ++i) logarithms += std::log(result.precisions[static_cast<size_t>(i)]);
  result.score = std::min(100.0, result.brevity_penalty * std::exp(logarithms / static_cast<double>(used)));
  return result;
}

BleuScore corpus_bleu(std::span<const std::string> hypotheses, std::span<const std::vector<std::string>> references,
                      const BleuOptions& options) {
  check(options);
  BleuStatistics sum;
  metric::for_each_sentence(hypotheses, references, "bleu", [&](const std::string& hypothesis, const auto& found) {
    sum += measure(hypothesis, found, options);
  });
  return bleu_score(sum, options);
}

BleuScore sentence_bleu(std::string_view hypothesis, std::span<const std::string> references, BleuOptions options) {
  options.effective_order = true;
  return bleu_score(bleu_statistics(hypothesis, references, options), options);
}

std::string details(const BleuScore& score) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(1);
  for (size_t i = 0; i < score.precisions.size(); ++i) text << (i > 0 ? "/" : "") << score.precisions[i];
  const BleuStatistics& counts = score.statistics;
  const double ratio = counts.reference_length > 0 ? static_cast<double>(counts.hypothesis_length) /
                                                         static_cast<double>(counts.reference_length)
                                                   : 0;
  text << std::setprecision(3) << " (BP = " << score.brevity_penalty << " ratio = " << ratio
       << " hyp_len = " << counts.hypothesis_length << " ref_len = " << counts.reference_length << ')';
  return text.str();
}

std::string bleu_signature(const BleuOptions& options, int64_t references) {
  std::ostringstream text;
  text << metric::signature_head(options.lowercase, references) << "|eff:" << (options.effective_order ? "yes" : "no")
       << "|tok:" << metric::name_of(options.tokenizer) << "|smooth:"
       << std::ranges::find(kSmoothings, options.smoothing, &std::pair<std::string_view, BleuSmoothing>::second)->first;
  const bool has_value = options.smoothing == BleuSmoothing::floor || options.smoothing == BleuSmoothing::add_k;
  if (has_value) text << '[' << std::fixed << std::setprecision(2) << smoothing_value(options) << ']';
  return text.str();
}

}  // namespace attend
