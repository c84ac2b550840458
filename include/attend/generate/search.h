#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "attend/generate/sampling.h"
#include "attend/generate/vocabulary.h"
#include "attend/models/model.h"
#include "attend/text/tokenizer.h"

// What a pair model writes for a source, in ids. attend/generate/translate.h does the same with text.
namespace attend {

/// When a search is done with a source.
enum class SearchStop {
  best,    ///< when nothing still being written can come to be better than the n best: the best there is
  likely,  ///< when `beam` hypotheses have ended and what is being written is no better as it stands: as transformers
  eager    ///< when `beam` hypotheses have ended
};

struct SearchOptions {
  int64_t beam = 1;           ///< hypotheses kept side by side; 1 is greedy search
  double length_penalty = 1;  ///< α: hypotheses are compared by log p / length^α, the end counted
  int64_t n_best = 1;         ///< hypotheses given back: at most `beam`; or independent samples
  SearchStop stop = SearchStop::best;
  bool ends_at_limit = true;  ///< where the length runs out the end is written; else words stand as they are
  std::optional<SamplingOptions> sampling;  ///< draw words instead of searching for the best
  int64_t max_length = 0;                   ///< most words of a target; 0: 3 · source + 10. Never beyond the context
  int64_t batch_tokens = 4096;              ///< sources are read together up to sources · longest · hypotheses
  bool use_cache = true;                    ///< false: read all that was written again for each word, to compare with
  int64_t first_index = 0;                  ///< number of the first source: sampling draws by it
  GenerationRules rules{};                  ///< what the model's folder says; words it forces count 0 in log p
  std::function<void()> on_step{};          ///< called before each word of a batch; an exception of it ends the search
};

/// The options with the rules of a model's folder, which decide where they leave it open: the longest text, and with
/// GenerationRules::as_transformers when a search is done and what happens where the length runs out.
SearchOptions with_rules(SearchOptions options, const GenerationRules& rules);
/// The search that the rules ask for when nobody else does: with their beam and length penalty, else greedy.
SearchOptions search_by(const GenerationRules& rules);
/// Throws ShapeError for a number out of its range, by name.
void check_search(const SearchOptions& options);

struct Hypothesis {
  std::vector<int32_t> ids;    ///< without begin and end
  double log_probability = 0;  ///< natural logarithm, of ids and the end, under the model itself
  /// log p / length^α; what the list is sorted by, unless sampled. In a beam it is log p after the rules: penalties and
  /// all.
  double score = 0;
  bool is_cut = false;  ///< the length ran out: the end was forced, or there is none
};

/// Hypotheses of source `index`, best first.
using OnHypotheses = std::function<void(int64_t index, std::vector<Hypothesis> best)>;

/// Writes for each source (ids with the end, no padding); calls back once for each, in the order they are done. For an
/// empty source that is an empty hypothesis. The words of a source do not depend on the others, nor on threads; their
/// log p may differ in its last digits with the batch and the cache, which add in another order. A source is done as
/// SearchStop says. Equal scores: smaller ids first. Throws ShapeError for a source longer than the context,
/// FormatError if the tokenizer does not fit the model, Error if the model gives no numbers.
void search(const PairModel& model, const Tokenizer& tokenizer, std::span<const std::vector<int32_t>> sources,
            const SearchOptions& options, const OnHypotheses& on_hypotheses);

/// The same for language models: what they write after each prompt, which must not be empty; without the prompt. For
/// max_length 0 it is as much as the context has room for. There is no sampling here: see generate_text.
void search(const LanguageModel& model, const Vocabulary& vocabulary, std::span<const std::vector<int32_t>> prompts,
            const SearchOptions& options, const OnHypotheses& on_hypotheses);

}  // namespace attend
