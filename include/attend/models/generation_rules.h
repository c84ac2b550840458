#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace attend {

/// The widest beam that a folder or a user may ask for.
inline constexpr int64_t kMostBeam = 1000;

/// When transformers' beam search is done, once it has as many hypotheses as the beam is wide.
enum class EarlyStopping {
  likely,  ///< when what is being written is no better as it stands
  eager,   ///< at once
  never    ///< when nothing that is being written can become better
};

/// What a model's folder says of how to write with it, where its tokenizer does not say enough. −1, 0 and empty: not
/// said. They change the scores of the next word in the order of transformers' processors: the penalty of repetitions,
/// repeated runs, banned words, the least length, what is forced, what may not come first, and at last the sum of
/// probabilities. Greedy search and sampling change logits, a beam changes log-probabilities.
struct GenerationRules {
  /// As transformers writes: prompts with what the tokenizer's template puts around a text, and no word banned but
  /// those listed here. For models that others trained.
  bool as_transformers = false;
  int32_t start = -1;                             ///< what the decoder of a pair model reads first
  std::vector<int32_t> ends;                      ///< each of these ends a text
  int32_t forced_first = -1, forced_last = -1;    ///< written first; written where the length runs out
  std::vector<int32_t> banned;                    ///< never written
  std::vector<std::vector<int32_t>> banned_runs;  ///< the last of each is never written behind the others
  std::vector<int32_t> banned_first;              ///< never written first
  int64_t beam = 0;
  int64_t max_length = 0;        ///< of what is written, the start or the prompt counted
  int64_t max_new = 0;           ///< the same without these; goes before max_length
  int64_t min_length = 0;        ///< no end before so many tokens, the start or the prompt counted
  int64_t min_new = 0;           ///< the same without these; goes before min_length
  int64_t no_repeat = 0;         ///< no run of so many tokens twice, the prompt counted; 0: any
  int64_t no_repeat_source = 0;  ///< no run of so many tokens of the source, or of the prompt; 0: any
  /// Scores of what was written, the start or the prompt counted, are divided by this where positive, else multiplied
  /// with it.
  double repetition_penalty = 1;
  bool renormalizes = false;  ///< a beam counts the words that the rules leave as if they were all
  std::string prefix;         ///< put before every text that is read: the name of a task
  double length_penalty = 1;
  EarlyStopping early_stopping = EarlyStopping::likely;
  std::vector<std::string> unfollowed;  ///< keys of the folder that ask for something this library does not do
};

}  // namespace attend
