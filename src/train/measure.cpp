#include "attend/train/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numbers>

#include "attend/base/error.h"
#include "attend/data/lines.h"
#include "attend/generate/score.h"
#include "attend/generate/translate.h"
#include "attend/text/utf8.h"
#include "distributed/group.h"
#include "train/broadcast.h"
#include "train/file_bytes.h"

namespace attend {
namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kTextBytes = size_t{1} << 20, kLinesAtOnce = 512;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

/// The numbers of a text that a likelihood needs; its unknown tokens are counted too.
std::vector<double> numbers_of(std::span<const TextScore> scores, int32_t unknown = -1) {
  std::vector<double> numbers;
  for (const TextScore& score : scores) {
    numbers.push_back(score.log_probability);
    numbers.push_back(static_cast<double>(score.log_probabilities.size()));
    numbers.push_back(static_cast<double>(std::ranges::count(score.ids, unknown)));
  }
  return numbers;
}
constexpr int64_t kNumbers = 3;

void add(Likelihood& sum, const std::vector<double>& numbers) {
  for (size_t i = 0; i < numbers.size(); i += kNumbers) {
    sum.nats -= numbers[i];
    sum.tokens += static_cast<int64_t>(numbers[i + 1]);
  }
}

/// Several processes share a group of lines.
size_t lines_at_once() { return kLinesAtOnce * static_cast<size_t>(distributed::world().size()); }

Likelihood likelihood_of(const PairModel& model, const Tokenizer& tokenizer, std::span<const std::string> sources,
                         std::span<const std::string> targets, const GenerationRules& rules) {
  Likelihood result;
  std::vector<std::string> from, to;
  for (size_t i = 0; i < sources.size(); ++i) {
    if (!is_blank(sources[i]) && !is_blank(targets[i])) from.push_back(sources[i]), to.push_back(targets[i]);
    if (from.size() < lines_at_once() && i + 1 < sources.size()) continue;
    add(result, divided_range(std::ssize(from), kNumbers, [&](int64_t begin, int64_t end) {
          const auto at = static_cast<size_t>(begin), count = static_cast<size_t>(end - begin);
          return numbers_of(score_pairs(model, tokenizer, std::span(from).subspan(at, count),
                                        std::span(to).subspan(at, count), {.rules = rules}));
        }));
    from.clear(), to.clear();
  }
  return result;
}

bool is_space(char32_t code) { return code == ' ' || (code >= '\t' && code <= '\r') || code == 0xa0 || code == 0x3000; }

/// Accumulates the measures of plain text over batches of texts.
class LanguageMeasurer {
 public:
  LanguageMeasurer(const LanguageModel& model, const Tokenizer& tokenizer, const GenerationRules& rules)
      : model_(model), tokenizer_(tokenizer), rules_(rules) {}

  void add_texts(const std::vector<std::string>& texts) {
    if (texts.empty()) return;
    const auto numbers = divided_range(std::ssize(texts), kNumbers, [&](int64_t begin, int64_t end) {
      const auto part = std::span(texts).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
      return numbers_of(score_texts(model_, tokenizer_, part, {.rules = rules_}), tokenizer_.special().unknown);
    });
    add(result_.likelihood, numbers);
    for (size_t i = 2; i < numbers.size(); i += kNumbers) result_.unknown += static_cast<int64_t>(numbers[i]);
    for (const std::string& text : texts) count(text);
    is_chinese_ = is_chinese_ || usual_bleu_tokenizer(texts) != BleuTokenizer::v13a;
  }

  LanguageMeasures result() const {
    LanguageMeasures result = result_;
    if (is_chinese_) result.words = 0;
    return result;
  }

 private:
  void count(const std::string& text) {
    bool in_word = false;
    for (const char32_t code : code_points(text)) {
      const bool begins_word = !is_space(code) && !in_word;
      in_word = !is_space(code);
      result_.words += begins_word;
      ++result_.characters;
    }
    result_.bytes += std::ssize(text);
    ++result_.texts;
  }

  const LanguageModel& model_;
  const Tokenizer& tokenizer_;
  const GenerationRules& rules_;
  LanguageMeasures result_;
  bool is_chinese_ = false;
};

/// Visits the examples of a file in groups: kLinesAtOnce lines for each process, or a text for each that joins pieces
/// to kTextBytes.
template <class Visit>
void for_each_group(Corpus corpus, bool by_line, Visit&& visit) {
  corpus.whole_text = !by_line;
  CorpusReader reader(corpus);
  const auto processes = static_cast<size_t>(distributed::world().size());
  std::vector<std::string> group;
  for (Example example; reader.next(example);) {
    if (by_line || group.empty() || group.back().size() >= kTextBytes)
      group.push_back(std::move(example.source));
    else
      group.back() += example.source;
    const bool is_full =
        by_line ? group.size() >= lines_at_once() : group.size() == processes && group.back().size() >= kTextBytes;
    if (!is_full) continue;
    visit(group);
    group.clear();
  }
  visit(group);
}

}  // namespace

TextMetrics text_metrics(std::span<const std::string> hypotheses, std::span<const std::vector<std::string>> references,
                         const MetricOptions& options) {
  require<ShapeError>(!references.empty() && !references[0].empty(), "metrics: expected at least one reference");
  const BleuOptions bleu{.tokenizer = options.tokenizer ? *options.tokenizer : usual_bleu_tokenizer(references[0]),
                         .lowercase = options.lowercase};
  const ChrfOptions chrf{.lowercase = options.lowercase}, words{.word_order = 2, .lowercase = options.lowercase};
  const auto count = std::ssize(references);
  return {.bleu = corpus_bleu(hypotheses, references, bleu),
          .chrf = corpus_chrf(hypotheses, references, chrf),
          .chrf_words = corpus_chrf(hypotheses, references, words),
          .bleu_signature = bleu_signature(bleu, count),
          .chrf_signature = chrf_signature(chrf, count),
          .chrf_words_signature = chrf_signature(words, count),
          .sentences = std::ssize(hypotheses)};
}

double Likelihood::loss() const { return ratio(nats, static_cast<double>(tokens)); }
double Likelihood::perplexity() const { return std::exp(loss()); }

TranslationMeasures measure_translation(const PairModel& model, const Tokenizer& tokenizer,
                                        std::span<const std::string> sources, std::span<const std::string> targets,
                                        const TranslationMeasuring& options) {
  require<ShapeError>(sources.size() == targets.size() && !sources.empty(),
                      "measure: expected as many sources as targets, got ", sources.size(), " and ", targets.size());
  TranslationMeasures result;
  const auto start = Clock::now();
  SearchOptions search = options.search;
  const auto report = [&](const std::string& text) {
    if (options.on_hypothesis) options.on_hypothesis(text);
    const auto done = static_cast<double>(result.hypotheses.size());
    if (options.progress) options.progress(ratio(done, static_cast<double>(sources.size())));
  };
  const auto take = [&](const std::string& text, int64_t tokens, bool is_cut) {
    result.hypotheses.push_back(text);
    result.written += tokens;
    result.cut_sources += is_cut;
    report(text);
  };
  const bool is_alone = distributed::world().size() == 1;
  for (size_t begin = 0; begin < sources.size(); begin += lines_at_once()) {
    const auto count = std::ssize(sources.subspan(begin, std::min(lines_at_once(), sources.size() - begin)));
    const auto lines = divided_range(count, [&](int64_t first, int64_t last) {
      std::vector<std::string> results;
      search.first_index = options.search.first_index + static_cast<int64_t>(begin) + first;
      const auto part = sources.subspan(begin + static_cast<size_t>(first), static_cast<size_t>(last - first));
      translate(model, tokenizer, part, search, [&](const TranslatedLine& line) {
        const Translation& best = line.best[0];
        if (is_alone) return take(best.text, best.tokens, line.is_source_cut);
        results.push_back(distributed::packed({best.text, std::to_string(best.tokens), line.is_source_cut ? "1" : ""}));
      });
      return results;
    });
    for (const std::string& line : lines) {
      const std::vector<std::string> parts = distributed::unpacked(line);
      take(parts[0], std::stoll(parts[1]), !parts[2].empty());
    }
  }
  result.seconds = since(start);
  std::vector<std::string> compared;
  std::vector<std::vector<std::string>> references(1);
  for (size_t i = 0; i < targets.size(); ++i) {
    if (is_blank(targets[i])) continue;
    compared.push_back(result.hypotheses[i]);
    references[0].push_back(targets[i]);
  }
  result.left_out = std::ssize(targets) - std::ssize(compared);
  result.metrics = text_metrics(compared, references, options.metrics);
  result.likelihood = likelihood_of(model, tokenizer, sources, targets, options.search.rules);
  return result;
}

double LanguageMeasures::bits_per_character() const {
  return ratio(likelihood.nats, static_cast<double>(characters)) / std::numbers::ln2;
}
double LanguageMeasures::bits_per_byte() const {
  return ratio(likelihood.nats, static_cast<double>(bytes)) / std::numbers::ln2;
}
double LanguageMeasures::word_perplexity() const {
  return std::exp(ratio(likelihood.nats, static_cast<double>(words)));
}

LanguageMeasures measure_language(const LanguageModel& model, const Tokenizer& tokenizer, const Corpus& corpus,
                                  bool by_line, const std::function<void(double share)>& progress,
                                  const GenerationRules& rules) {
  const auto start = Clock::now();
  const double total = bytes_of(corpus.files);
  LanguageMeasurer measurer(model, tokenizer, rules);
  for (const std::string& file : corpus.files) {
    Corpus one = corpus;
    one.files = {file};
    for_each_group(one, by_line, [&](const std::vector<std::string>& texts) {
      measurer.add_texts(texts);
      const double share = ratio(static_cast<double>(measurer.result().bytes), total);
      if (progress) progress(share > 0 ? std::min(share, 1.0) : -1);
    });
  }
  LanguageMeasures result = measurer.result();
  result.seconds = since(start);
  return result;
}

}  // namespace attend
