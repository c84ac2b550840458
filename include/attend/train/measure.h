#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "attend/data/corpus.h"
#include "attend/generate/search.h"
#include "attend/models/model.h"
#include "attend/text/bleu.h"
#include "attend/text/chrf.h"
#include "attend/text/tokenizer.h"

// How good a trained model is on text it has not seen, in the figures that papers give.
namespace attend {

struct MetricOptions {
  std::optional<BleuTokenizer> tokenizer;  ///< without one: zh for Chinese references, otherwise 13a
  bool lowercase = false;
};

/// Text against references, in sacreBLEU's figures.
struct TextMetrics {
  BleuScore bleu;
  double chrf = 0;        ///< chrF2
  double chrf_words = 0;  ///< chrF2++
  std::string bleu_signature, chrf_signature, chrf_words_signature;
  int64_t sentences = 0;
};
/// references[r][i] is the r-th reference of hypotheses[i]. Throws as corpus_bleu does.
TextMetrics text_metrics(std::span<const std::string> hypotheses, std::span<const std::vector<std::string>> references,
                         const MetricOptions& options = {});

/// How little a model was surprised by a text.
struct Likelihood {
  double nats = 0;  ///< −log p of all tokens
  int64_t tokens = 0;
  double loss() const;        ///< nats a token; 0 if there are none
  double perplexity() const;  ///< e^loss
};

struct TranslationMeasures {
  std::vector<std::string> hypotheses;  ///< for each source
  TextMetrics metrics;                  ///< of pairs whose target is not blank
  int64_t left_out = 0;                 ///< the others
  Likelihood likelihood;                ///< of the targets, their ends counted; pairs with a blank side left out
  int64_t written = 0;                  ///< tokens of the hypotheses, their ends counted
  double seconds = 0;                   ///< it took to write them
  int64_t cut_sources = 0;              ///< longer than the context: not read to the end
};
struct TranslationMeasuring {
  SearchOptions search;
  MetricOptions metrics;
  std::function<void(double share)> progress;  ///< may be empty
  /// Called for each hypothesis in the order of the sources, as soon as all before it are there; may be empty.
  std::function<void(const std::string& hypothesis)> on_hypothesis{};
};
/// Translates the sources and compares with the targets, line by line. Throws ShapeError for unequal counts or no pair.
TranslationMeasures measure_translation(const PairModel& model, const Tokenizer& tokenizer,
                                        std::span<const std::string> sources, std::span<const std::string> targets,
                                        const TranslationMeasuring& options = {});

struct LanguageMeasures {
  Likelihood likelihood;
  int64_t texts = 0;
  int64_t characters = 0, bytes = 0;  ///< of the text, line breaks counted unless each line is a text
  int64_t words = 0;                  ///< what blanks separate; 0 for Chinese text
  int64_t unknown = 0;                ///< tokens the vocabulary does not have: perplexity flatters where there are many
  double seconds = 0;
  double bits_per_character() const;
  double bits_per_byte() const;
  double word_perplexity() const;  ///< e^(nats / words); 1 if there are none
};
/// Scores plain text, each file a text or, with `by_line`, each line. Every token but the first few has at least half a
/// context before it. Holds about a MiB of text at a time, and begins a new text after so much. `rules` are those of
/// the model's folder.
LanguageMeasures measure_language(const LanguageModel& model, const Tokenizer& tokenizer, const Corpus& corpus,
                                  bool by_line = false, const std::function<void(double share)>& progress = {},
                                  const GenerationRules& rules = {});

struct LabelScore {
  std::string label;
  int64_t expected = 0, chosen = 0, right = 0;  ///< texts
  double precision() const;                     ///< 0 if it was never chosen
  double recall() const;                        ///< 0 if it was never expected
  double f1() const;
};
struct LabelMeasures {
  std::vector<LabelScore> labels;               ///< the model's in its order, then those it does not know
  std::vector<std::vector<int64_t>> confusion;  ///< [expected][chosen], as `labels`
  int64_t texts = 0, right = 0;
  int64_t unknown = 0;  ///< texts whose label the model does not know: counted as wrong
  double loss = 0;      ///< mean −log p of the expected labels the model knows
  int64_t tokens = 0;   ///< read
  double seconds = 0;
  double accuracy() const;
  double macro_f1() const;  ///< mean over the labels that are expected
};
/// Classifies labelled text. Throws Error for a model without labels, FormatError as CorpusReader does.
LabelMeasures measure_labels(const EncoderModel& model, const Tokenizer& tokenizer, const Corpus& corpus,
                             const std::function<void(double share)>& progress = {});

}  // namespace attend
