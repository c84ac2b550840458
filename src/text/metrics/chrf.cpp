#include "attend/text/chrf.h"

#include <algorithm>
#include <sstream>
#include <unordered_map>

#include "attend/base/error.h"
#include "text/metrics/ngrams.h"
#include "text/metrics/segments.h"

namespace attend {
namespace {

using Order = ChrfStatistics::Order;
using Symbols = std::vector<uint32_t>;

void check(const ChrfOptions& options) {
  require<ShapeError>(options.character_order >= 1 && options.word_order >= 0 && options.beta > 0,
                      "chrf: expected character_order ≥ 1, word_order ≥ 0 and beta > 0, got ", options.character_order,
                      ", ", options.word_order, ", ", options.beta);
}

/// A sentence as characters and as words, the two kinds of symbols that are counted.
struct Sentence {
  std::u32string text;
  Symbols characters;
  std::vector<std::u32string_view> words;  // views into `text`
};

bool is_punctuation(char32_t code) {
  const bool letter_or_digit =
      (code >= '0' && code <= '9') || (code >= 'A' && code <= 'Z') || (code >= 'a' && code <= 'z');
  return code > ' ' && code < 0x7f && !letter_or_digit;
}

/// Splits a punctuation mark off the end of a word or, if there is none, off its beginning.
void add_word(std::u32string_view word, std::vector<std::u32string_view>& words) {
  const size_t last = word.size() - 1;
  const size_t cut = last == 0 ? 0 : is_punctuation(word[last]) ? last : is_punctuation(word[0]) ? 1 : 0;
  if (cut > 0) words.push_back(word.substr(0, cut));
  words.push_back(word.substr(cut));
}

Sentence read(std::string_view text, const ChrfOptions& options) {
  Sentence sentence{.text = metric::decode(text, options.lowercase)};
  sentence.characters.reserve(sentence.text.size());
  for (const char32_t code : sentence.text) {
    if (options.whitespace || !metric::is_space(code)) sentence.characters.push_back(static_cast<uint32_t>(code));
  }
  if (options.word_order == 0) return sentence;
  for (const std::u32string_view word : metric::split_at_space(sentence.text)) add_word(word, sentence.words);
  return sentence;
}

/// The words of two sentences as numbers. Equal words have equal numbers.
std::vector<Symbols> number_words(const Sentence& hypothesis, const Sentence& reference) {
  std::unordered_map<std::u32string_view, uint32_t> known;
  const auto number = [&](const Sentence& sentence) {
    Symbols numbers;
    for (const auto word : sentence.words) {
      numbers.push_back(known.emplace(word, static_cast<uint32_t>(known.size())).first->second);
    }
    return numbers;
  };
  std::vector<Symbols> result{number(hypothesis)};
  result.push_back(number(reference));
  return result;
}

Order compare(const NGrams& grams) {
  const auto hypothesis = grams.of(0), reference = grams.of(1);
  std::vector<int64_t> unmatched(grams.count());
  for (const uint32_t gram : reference) ++unmatched[gram];
  int64_t matches = 0;
  for (const uint32_t gram : hypothesis) matches += unmatched[gram]-- > 0 ? 1 : 0;
  // If the reference is too short to have n-grams of this order, the n-grams of the hypothesis do not count either.
  return {.hypothesis = reference.empty() ? 0 : static_cast<int64_t>(hypothesis.size()),
          .reference = static_cast<int64_t>(reference.size()),
          .matches = matches};
}

void add_orders(std::vector<Symbols> sequences, int64_t orders, ChrfStatistics& statistics) {
  thread_local NGrams grams;
  grams.start(std::move(sequences));
  for (int64_t order = 1; order <= orders; ++order) {
    if (order > 1) grams.next_order();
    statistics.orders.push_back(compare(grams));
  }
}

ChrfStatistics measure(std::string_view hypothesis, const std::vector<std::string_view>& references,
                       const ChrfOptions& options) {
  const Sentence ours = read(hypothesis, options);
  ChrfStatistics best;
  double best_score = -1;
  for (const std::string_view reference : references) {
    const Sentence theirs = read(reference, options);
    ChrfStatistics statistics;
    add_orders({ours.characters, theirs.characters}, options.character_order, statistics);
    if (options.word_order > 0) add_orders(number_words(ours, theirs), options.word_order, statistics);
    const double score = chrf_score(statistics, options);
    if (score <= best_score) continue;
    best_score = score;
    best = std::move(statistics);
  }
  return best;
}

/// The F-score of a precision and a recall; 0 if both are 0.
double f_score(double precision, double recall, double beta) {
  const double factor = beta * beta, divisor = factor * precision + recall;
  return divisor > 0 ? (1 + factor) * precision * recall / divisor : 0;
}

}  // namespace

ChrfStatistics& ChrfStatistics::operator+=(const ChrfStatistics& other) {
  orders.resize(std::max(orders.size(), other.orders.size()));
  for (size_t i = 0; i < other.orders.size(); ++i) {
    orders[i].hypothesis += other.orders[i].hypothesis;
    orders[i].reference += other.orders[i].reference;
    orders[i].matches += other.orders[i].matches;
  }
  return *this;
}

ChrfStatistics chrf_statistics(std::string_view hypothesis, std::span<const std::string> references,
                               const ChrfOptions& options) {
  check(options);
  const std::vector<std::string_view> found = metric::given(references);
  require<ShapeError>(!found.empty(), "chrf: the sentence has no reference");
  return measure(hypothesis, found, options);
}

double chrf_score(const ChrfStatistics& statistics, const ChrfOptions& options) {
  constexpr double kEpsilon = 1e-16;
  double precisions = 0, recalls = 0, scores = 0;
  int64_t used = 0;
  for (const Order& order : statistics.orders) {
    const auto matches = static_cast<double>(order.matches);
    const double precision = order.hypothesis > 0 ? matches / static_cast<double>(order.hypothesis) : kEpsilon;
    const double recall = order.reference > 0 ? matches / static_cast<double>(order.reference) : kEpsilon;
    scores += f_score(precision, recall, options.beta);
    if (order.hypothesis == 0 || order.reference == 0) continue;
    precisions += precision;
    recalls += recall;
    ++used;
  }
  if (options.epsilon) return 100 * scores / static_cast<double>(std::max<size_t>(statistics.orders.size(), 1));
  if (used == 0) return 0;
  return 100 * f_score(precisions / static_cast<double>(used), recalls / static_cast<double>(used), options.beta);
}

double corpus_chrf(std::span<const std::string> hypotheses, std::span<const std::vector<std::string>> references,
                   const ChrfOptions& options) {
  check(options);
  ChrfStatistics sum;
  metric::for_each_sentence(hypotheses, references, "chrf", [&](const std::string& hypothesis, const auto& found) {
    sum += measure(hypothesis, found, options);
  });
  return chrf_score(sum, options);
}

double sentence_chrf(std::string_view hypothesis, std::span<const std::string> references, const ChrfOptions& options) {
  return chrf_score(chrf_statistics(hypothesis, references, options), options);
}

std::string chrf_name(const ChrfOptions& options) {
  std::ostringstream text;
  text << "chrF" << options.beta << std::string(static_cast<size_t>(std::max<int64_t>(options.word_order, 0)), '+');
  return text.str();
}

std::string chrf_signature(const ChrfOptions& options, int64_t references) {
  std::ostringstream text;
  text << metric::signature_head(options.lowercase, references) << "|eff:" << (options.epsilon ? "no" : "yes")
       << "|nc:" << options.character_order << "|nw:" << options.word_order
       << "|space:" << (options.whitespace ? "yes" : "no");
  return text.str();
}

}  // namespace attend
