#include "attend/generate/search.h"

#include <algorithm>
#include <functional>
#include <memory>

#include "attend/base/error.h"
#include "generate/engine.h"
#include "generate/limits.h"

namespace attend {

namespace {

constexpr int64_t kMostRows = 512;  // in a batch: matrix products are not faster with more

SearchStop stop_of(EarlyStopping stopping) {
  switch (stopping) {
    case EarlyStopping::likely:
      return SearchStop::likely;
    case EarlyStopping::eager:
      return SearchStop::eager;
    case EarlyStopping::never:
      return SearchStop::best;  // finds the same hypotheses and stops sooner
  }
  return SearchStop::likely;
}

/// Adds the sequences sorted by length, so that sequences of similar length run together, and runs them all.
void run(Engine& engine, std::vector<Sequence> sequences, const SearchOptions& options) {
  std::ranges::stable_sort(sequences, std::ranges::greater{}, [](const Sequence& sequence) {
    return std::max(sequence.source.size(), sequence.prompt.size());
  });
  for (Sequence& sequence : sequences) engine.add(std::move(sequence));
  do {
    if (options.on_step) options.on_step();
  } while (engine.step());
}

EngineOptions engine_options(const SearchOptions& options) {
  return {.rows = kMostRows,
          .tokens = options.batch_tokens,
          .use_cache = options.use_cache,
          .cache_type = options.cache_type,
          .draft_tokens = options.draft_tokens};
}

/// The samples of one source. They are reported once all are finished.
struct Samples {
  std::vector<Hypothesis> all;
  size_t missing = 0;
};

/// Adds the sequences of one source: one for a search, or one per sample.
void add(std::vector<Sequence>& sequences, const Sequence& one, int64_t index, const OnHypotheses& on_hypotheses) {
  if (!one.options.sampling) {
    sequences.push_back(one);
    sequences.back().on_done = [&on_hypotheses, index](std::vector<Hypothesis> best) {
      on_hypotheses(index, std::move(best));
    };
    return;
  }
  const auto samples = std::make_shared<Samples>();
  samples->missing = static_cast<size_t>(one.options.n_best);
  samples->all.resize(samples->missing);
  for (uint32_t copy = 0; copy < samples->all.size(); ++copy) {
    sequences.push_back(one);
    sequences.back().copy = copy;
    sequences.back().on_done = [&on_hypotheses, samples, index, copy](std::vector<Hypothesis> best) {
      samples->all[copy] = std::move(best[0]);
      if (--samples->missing == 0) on_hypotheses(index, std::move(samples->all));
    };
  }
}

}  // namespace

SearchOptions with_rules(SearchOptions options, const GenerationRules& rules) {
  options.rules = rules;
  // The start token counts as read. Without a rule, 0 stays, and the limit depends on the source.
  if (options.max_length == 0 && (rules.max_new > 0 || rules.max_length > 1)) {
    options.max_length = token_limit(rules, 0, 1, INT64_MAX);
  }
  if (!rules.as_transformers) return options;
  if (options.stop == SearchStop::best) options.stop = stop_of(rules.early_stopping);
  options.ends_at_limit = false;
  return options;
}

SearchOptions search_by(const GenerationRules& rules) {
  return with_rules({.beam = std::max<int64_t>(rules.beam, 1), .length_penalty = rules.length_penalty}, rules);
}

void check_search(const SearchOptions& options) {
  const auto from_one = [](const char* name, int64_t value) {
    require<ShapeError>(value >= 1, "search: ", name, " must be at least 1, got ", value);
  };
  from_one("beam", options.beam);
  from_one("n_best", options.n_best);
  from_one("batch_tokens", options.batch_tokens);
  require<ShapeError>(options.max_length >= 0, "search: max_length must be at least 0, got ", options.max_length);
  require<ShapeError>(options.length_penalty >= -10 && options.length_penalty <= 10,
                      "search: length_penalty must be from -10 to 10, got ", options.length_penalty);
  require<ShapeError>(options.sampling || options.n_best <= options.beam, "search: the ", options.n_best,
                      " best requested, but the beam is ", options.beam);
  if (options.sampling) check_sampling(*options.sampling);
}

void search(const PairModel& model, const Tokenizer& tokenizer, std::span<const std::vector<int32_t>> sources,
            const SearchOptions& options, const OnHypotheses& on_hypotheses) {
  check_search(options);
  const Vocabulary vocabulary = Vocabulary::of(tokenizer, model.vocab_size(), options.rules);
  require<FormatError>(vocabulary.end() >= 0, "search: the tokenizer has no end-of-sequence token");
  std::vector<Sequence> sequences;
  for (int64_t index = 0; index < std::ssize(sources); ++index) {
    const std::vector<int32_t>& source = sources[static_cast<size_t>(index)];
    if (source.empty()) {
      on_hypotheses(index, {Hypothesis{}});
      continue;
    }
    const int64_t wanted = options.max_length > 0 ? options.max_length : 3 * std::ssize(source) + 10;
    // The begin token takes a position too.
    const int64_t room = options.ends_at_limit ? model.context() - 1 : model.context();
    add(sequences,
        {.source = source,
         .prompt = {vocabulary.begin},
         .vocabulary = vocabulary,
         .options = options,
         .limit = std::min(wanted, room),
         .index = static_cast<uint64_t>(options.first_index + index)},
        index, on_hypotheses);
  }
  Engine engine(model, engine_options(options));
  run(engine, std::move(sequences), options);
}

void search(const LanguageModel& model, const Vocabulary& vocabulary, std::span<const std::vector<int32_t>> prompts,
            const SearchOptions& options, const OnHypotheses& on_hypotheses) {
  check_search(options);
  require<ShapeError>(!options.sampling, "search: sampling is not supported for language models; use generate_text");
  require<ShapeError>(!options.ends_at_limit || vocabulary.end() >= 0,
                      "search: the tokenizer has no end-of-sequence token");
  std::vector<Sequence> sequences;
  for (int64_t index = 0; index < std::ssize(prompts); ++index) {
    const std::vector<int32_t>& prompt = prompts[static_cast<size_t>(index)];
    const int64_t room = model.context() - std::ssize(prompt);
    require<ShapeError>(!prompt.empty() && room > 0, "search: a prompt has ", prompt.size(),
                        " tokens, but the model's context is ", model.context());
    add(sequences,
        {.prompt = prompt,
         .vocabulary = vocabulary,
         .options = options,
         .limit = options.max_length > 0 ? std::min(options.max_length, room) : room,
         .index = static_cast<uint64_t>(options.first_index + index)},
        index, on_hypotheses);
  }
  Engine engine(model, engine_options(options));
  run(engine, std::move(sequences), options);
}

}  // namespace attend
