#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "attend/generate/drafts.h"
#include "attend/generate/sampling.h"
#include "attend/generate/vocabulary.h"
#include "attend/models/model.h"
#include "attend/text/tokenizer.h"

// Greedy search, beam search and sampling on token ids. attend/generate/translate.h has the interface for text.
namespace attend {

class Constraint;

/// When the search for a source stops.
enum class SearchStop {
  best,    ///< when no unfinished hypothesis can reach a better score than the n best
  likely,  ///< when `beam` hypotheses are finished and no unfinished one has a better score now, as in transformers
  eager    ///< when `beam` hypotheses are finished
};

struct SearchOptions {
  int64_t beam = 1;           ///< beam size; 1 is greedy search
  double length_penalty = 1;  ///< α: the score is log p / length^α, where the length includes the end token
  int64_t n_best = 1;         ///< number of hypotheses to return, at most `beam`; with sampling, of samples
  SearchStop stop = SearchStop::best;
  bool ends_at_limit = true;  ///< force the end token at the maximum length; false: stop without an end token
  std::optional<SamplingOptions> sampling;  ///< sample instead of searching
  int64_t max_length = 0;       ///< maximum target length in tokens; 0: 3 · source + 10. Never beyond the context
  int64_t batch_tokens = 4096;  ///< maximum batch size in tokens: sources · longest length · hypotheses
  bool use_cache = true;        ///< false: recompute all tokens in each step, as a reference
  std::optional<DType> cache_type{};    ///< of keys and values, f32 or bf16; by default default_cache_type()
  int64_t draft_tokens = kDraftTokens;  ///< maximum number of guesses in a step: see attend/generate/drafts.h
  int64_t first_index = 0;              ///< index of the first source, which determines the random draws
  GenerationRules rules{};              ///< generation settings of the model's folder; forced tokens have log p 0
  /// Limits the texts to a grammar; see attend/grammar/constraint.h. Log-probabilities are still those of the model
  /// among all tokens. A forced token or the maximum length may cut a text.
  std::shared_ptr<const Constraint> constraint{};
  std::function<void()> on_step{};  ///< called before each step of a batch; an exception ends the search
};

/// The options with the generation settings of a model's folder. The settings replace options that have their default
/// value: the maximum length, and with GenerationRules::as_transformers the stop criterion and ends_at_limit.
SearchOptions with_rules(SearchOptions options, const GenerationRules& rules);
/// The default search of a model's folder: its beam size and length penalty, or greedy search.
SearchOptions search_by(const GenerationRules& rules);
/// Throws a ShapeError that names the option if an option is out of range.
void check_search(const SearchOptions& options);

struct Hypothesis {
  std::vector<int32_t> ids;    ///< without begin and end token
  double log_probability = 0;  ///< natural logarithm, of the ids and the end token, by the model without rules
  /// log p / length^α, by which hypotheses are sorted, except for samples. In beam search, log p includes the changes
  /// by the rules.
  double score = 0;
  bool is_cut = false;  ///< the maximum length was reached: the end token was forced or is missing
};

/// Receives the hypotheses of source `index`, best first.
using OnHypotheses = std::function<void(int64_t index, std::vector<Hypothesis> best)>;

/// Generates targets for each source (ids with the end token, without padding). Calls `on_hypotheses` once for each
/// source, in the order in which the sources finish. The hypothesis of an empty source is empty. The tokens of a source
/// do not depend on the other sources or on the number of threads; their log p may differ in the last digits with the
/// batch and the cache, which sum in another order. If scores are equal, smaller ids come first. Throws ShapeError for
/// a source longer than the context, FormatError if the tokenizer does not match the model, and Error if the model
/// computes NaN.
void search(const PairModel& model, const Tokenizer& tokenizer, std::span<const std::vector<int32_t>> sources,
            const SearchOptions& options, const OnHypotheses& on_hypotheses);

/// search() for language models: continues each prompt, which must not be empty. Hypotheses do not include the prompt.
/// If max_length is 0, a hypothesis may fill the context. Sampling is not supported; use generate_text.
void search(const LanguageModel& model, const Vocabulary& vocabulary, std::span<const std::vector<int32_t>> prompts,
            const SearchOptions& options, const OnHypotheses& on_hypotheses);

}  // namespace attend
