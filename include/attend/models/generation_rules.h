#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace attend {

/// Maximum beam size that a model folder or a user may set.
inline constexpr int64_t kMostBeam = 1000;

/// When the beam search of Hugging Face transformers stops, once the number of finished hypotheses is the beam size.
enum class EarlyStopping {
  likely,  ///< when no unfinished hypothesis has a better score at its current length
  eager,   ///< immediately
  never    ///< when no unfinished hypothesis can reach a better score at any length
};

/// The generation settings of a model folder (generation_config.json). −1, 0 and empty mean "not set". The rules change
/// the scores of the next token in the order of transformers' logits processors: repetition penalty, repeated n-grams,
/// banned tokens, minimum length, forced tokens, tokens banned at the start, renormalisation. Greedy search and
/// sampling change logits; beam search changes log-probabilities.
struct GenerationRules {
  /// Generate as transformers does: put the special tokens of the tokenizer's template around a prompt, and ban only
  /// the tokens listed here. True for Hugging Face models.
  bool as_transformers = false;
  int32_t start = -1;                             ///< first input token of a translation model's decoder
  std::vector<int32_t> ends;                      ///< end-of-text tokens
  int32_t forced_first = -1, forced_last = -1;    ///< forced first token; forced last token at the maximum length
  std::vector<int32_t> banned;                    ///< tokens that are never generated
  std::vector<std::vector<int32_t>> banned_runs;  ///< token sequences that are never generated
  std::vector<int32_t> banned_first;              ///< tokens that are never generated first
  int64_t beam = 0;                               ///< beam size
  int64_t max_length = 0;                         ///< maximum number of tokens, including the start token or the prompt
  int64_t max_new = 0;                            ///< maximum number of generated tokens; overrides max_length
  int64_t min_length = 0;                         ///< minimum number of tokens, including the start token or the prompt
  int64_t min_new = 0;                            ///< minimum number of generated tokens; overrides min_length
  int64_t no_repeat = 0;         ///< size of n-grams that may not occur twice, including the prompt; 0: off
  int64_t no_repeat_source = 0;  ///< size of n-grams of the source or the prompt that may not be repeated; 0: off
  /// Positive scores of tokens that occurred already, including the start token or the prompt, are divided by this
  /// number; negative scores are multiplied by it.
  double repetition_penalty = 1;
  bool renormalizes = false;  ///< normalise the probabilities again after all other rules
  std::string prefix;         ///< text put before every input, such as the name of a task
  double length_penalty = 1;
  EarlyStopping early_stopping = EarlyStopping::likely;
  std::vector<std::string> unfollowed;  ///< keys of the folder that this library does not support
};

}  // namespace attend
