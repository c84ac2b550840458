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
#include "train/file_bytes.h"

namespace attend {
namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kTextBytes = size_t{1} << 20, kLinesAtOnce = 512;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

void add(Likelihood& sum, std::span<const TextScore> scores) {
  for (const TextScore& score : scores) {
    sum.nats -= score.log_probability;
    sum.tokens += std::ssize(score.log_probabilities);
  }
}

Likelihood likelihood_of(const PairModel& model, const Tokenizer& tokenizer, std::span<const std::string> sources,
                         std::span<const std::string> targets, const GenerationRules& rules) {
  Likelihood result;
  std::vector<std::string> from, to;
  for (size_t i = 0; i < sources.size(); ++i) {
    if (!is_blank(sources[i]) && !is_blank(targets[i])) from.push_back(sources[i]), to.push_back(targets[i]);
    if (from.size() < kLinesAtOnce && i + 1 < sources.size()) continue;
    add(result, score_pairs(model, tokenizer, from, to, {.rules = rules}));
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
    const std::vector<TextScore> scores = score_texts(model_, tokenizer_, texts, {.rules = rules_});
    add(result_.likelihood, scores);
    const int32_t unknown = tokenizer_.special().unknown;
    for (const TextScore& score : scores) result_.unknown += std::ranges::count(score.ids, unknown);
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

/// Visits the examples of a file in groups: kLinesAtOnce lines, or pieces of text joined to kTextBytes.
template <class Visit>
void for_each_group(Corpus corpus, bool by_line, Visit&& visit) {
  corpus.whole_text = !by_line;
  CorpusReader reader(corpus);
  std::vector<std::string> group;
  for (Example example; reader.next(example);) {
    if (by_line || group.empty())
      group.push_back(std::move(example.source));
    else
      group[0] += example.source;
    if (by_line ? group.size() < kLinesAtOnce : group[0].size() < kTextBytes) continue;
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
  const auto on_line = [&](const TranslatedLine& line) {
    result.hypotheses.push_back(line.best[0].text);
    result.written += line.best[0].tokens;
    result.cut_sources += line.is_source_cut;
    if (options.on_hypothesis) options.on_hypothesis(result.hypotheses.back());
    const auto done = static_cast<double>(result.hypotheses.size());
    if (options.progress) options.progress(ratio(done, static_cast<double>(sources.size())));
  };
  SearchOptions search = options.search;
  for (size_t begin = 0; begin < sources.size(); begin += kLinesAtOnce) {
    search.first_index = options.search.first_index + static_cast<int64_t>(begin);
    const size_t count = std::min(kLinesAtOnce, sources.size() - begin);
    translate(model, tokenizer, sources.subspan(begin, count), search, on_line);
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
