#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "attend/models/generation_rules.h"
#include "attend/models/model.h"
#include "attend/text/tokenizer.h"

namespace attend {

struct TextScore {
  double log_probability = 0;             ///< natural logarithm: the sum of `log_probabilities`
  std::vector<int32_t> ids;               ///< what was scored: the pieces of the text, and for pairs the end
  std::vector<double> log_probabilities;  ///< log p of each id, given all before it (and the source)
  bool is_cut = false;                    ///< a side was longer than the context: its end was not read
};

struct ScoreOptions {
  int64_t batch_tokens = 4096;  ///< texts are read together up to texts · longest
  GenerationRules rules{};      ///< what the model's folder says beside its tokenizer
};

/// log p(target | source) of each pair, as search() reports it for what it writes. Throws ShapeError unless there are
/// as many targets as sources, FormatError if a text is not UTF-8 or the tokenizer does not fit the model.
std::vector<TextScore> score_pairs(const PairModel& model, const Tokenizer& tokenizer,
                                   std::span<const std::string> sources, std::span<const std::string> targets,
                                   const ScoreOptions& options = {});

/// log p of each text as the beginning of a new one; its end is not scored. Texts longer than the context are read in
/// steps of half of it, so that every later word has at least half a context before it.
std::vector<TextScore> score_texts(const LanguageModel& model, const Tokenizer& tokenizer,
                                   std::span<const std::string> texts, const ScoreOptions& options = {});

/// e^(− mean of all words' log p); 1 if there are none.
double perplexity(std::span<const TextScore> scores);

}  // namespace attend
