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

// Evaluation of trained models with standard metrics.
namespace attend {

struct MetricOptions {
  std::optional<BleuTokenizer> tokenizer;  ///< default: usual_bleu_tokenizer of the references
  bool lowercase = false;
};

/// The metrics of hypotheses against references, as computed by sacreBLEU.
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

/// The likelihood of a text.
struct Likelihood {
  double nats = 0;  ///< −log p of all tokens
  int64_t tokens = 0;
  double loss() const;        ///< nats per token; 0 if there are no tokens
  double perplexity() const;  ///< e^loss
};

struct TranslationMeasures {
  std::vector<std::string> hypotheses;  ///< one for each source
  TextMetrics metrics;                  ///< metrics of the pairs whose target is not blank
  int64_t left_out = 0;                 ///< number of pairs with a blank target
  Likelihood likelihood;                ///< of the targets, including end tokens; without pairs that have a blank side
  int64_t written = 0;                  ///< number of tokens of the hypotheses, including end tokens
  double seconds = 0;                   ///< time of the translation
  int64_t cut_sources = 0;              ///< number of sources truncated to the model's context
};
struct TranslationMeasuring {
  SearchOptions search;
  MetricOptions metrics;
  std::function<void(double share)> progress;  ///< may be empty
  /// Called for each hypothesis in the order of the sources, as soon as it and all before it are done; may be empty.
  std::function<void(const std::string& hypothesis)> on_hypothesis{};
};
/// Translates the sources and compares the results with the targets. Throws ShapeError if the numbers of sources and
/// targets differ or there is no pair.
TranslationMeasures measure_translation(const PairModel& model, const Tokenizer& tokenizer,
                                        std::span<const std::string> sources, std::span<const std::string> targets,
                                        const TranslationMeasuring& options = {});

struct LanguageMeasures {
  Likelihood likelihood;
  int64_t texts = 0;
  int64_t characters = 0, bytes = 0;  ///< size of the text; includes line breaks, unless each line is a text
  int64_t words = 0;                  ///< number of words separated by white space; 0 for Chinese text
  int64_t unknown = 0;                ///< number of unknown tokens; perplexity is misleadingly low if there are many
  double seconds = 0;
  double bits_per_character() const;
  double bits_per_byte() const;
  double word_perplexity() const;  ///< e^(nats / words); 1 if there are no words
};
/// Scores plain text. Each file is a text or, with `by_line`, each line. All tokens after the first context have at
/// least half a context before them. Holds about 1 MiB of text in memory and starts a new text after each MiB. `rules`
/// are the generation settings of the model's folder.
LanguageMeasures measure_language(const LanguageModel& model, const Tokenizer& tokenizer, const Corpus& corpus,
                                  bool by_line = false, const std::function<void(double share)>& progress = {},
                                  const GenerationRules& rules = {});

struct LabelScore {
  std::string label;
  int64_t expected = 0, chosen = 0, right = 0;  ///< number of texts with this label; predicted; predicted correctly
  double precision() const;                     ///< 0 if the label was never predicted
  double recall() const;                        ///< 0 if no text has the label
  double f1() const;
};
struct LabelMeasures {
  std::vector<LabelScore> labels;               ///< the model's labels in its order, then unknown labels
  std::vector<std::vector<int64_t>> confusion;  ///< confusion matrix [expected][predicted], in the order of `labels`
  int64_t texts = 0, right = 0;
  int64_t unknown = 0;  ///< number of texts with a label that the model does not have; counted as wrong
  double loss = 0;      ///< mean −log p of the expected labels, without unknown labels; 0 if all are unknown
  int64_t tokens = 0;   ///< number of tokens read
  double seconds = 0;
  double accuracy() const;
  double macro_f1() const;  ///< mean F1 of the labels that occur in the corpus
};
/// Classifies labelled text and compares the predictions with the labels. Throws Error if the model has no labels, and
/// FormatError as CorpusReader does.
LabelMeasures measure_labels(const EncoderModel& model, const Tokenizer& tokenizer, const Corpus& corpus,
                             const std::function<void(double share)>& progress = {});

}  // namespace attend
