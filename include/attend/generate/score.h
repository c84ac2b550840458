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
  std::vector<int32_t> ids;               ///< the scored tokens; for pairs including the end token
  std::vector<double> log_probabilities;  ///< log p of each token given the tokens before it (and the source)
  bool is_cut = false;                    ///< the source or the target was truncated to the model's context
};

struct ScoreOptions {
  int64_t batch_tokens = 4096;  ///< maximum batch size in tokens, including padding: texts · longest length
  GenerationRules rules{};      ///< generation settings of the model's folder
};

/// log p(target | source) of each pair, equal to the log-probability that search() reports. Throws ShapeError if the
/// numbers of sources and targets differ, and FormatError if a text is not UTF-8 or the tokenizer does not match the
/// model.
std::vector<TextScore> score_pairs(const PairModel& model, const Tokenizer& tokenizer,
                                   std::span<const std::string> sources, std::span<const std::string> targets,
                                   const ScoreOptions& options = {});

/// log p of each text as the start of a new text. The end token is not scored. A text longer than the context is read
/// in steps of half a context, so that each token after the first context has at least half a context before it.
std::vector<TextScore> score_texts(const LanguageModel& model, const Tokenizer& tokenizer,
                                   std::span<const std::string> texts, const ScoreOptions& options = {});

/// e^(−mean log p of all tokens); 1 if there are no tokens.
double perplexity(std::span<const TextScore> scores);

}  // namespace attend
