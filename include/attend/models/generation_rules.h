#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace attend {

/// What a model's folder says of how to write with it, where its tokenizer does not say enough. −1, 0 and empty: not
/// said.
struct GenerationRules {
  /// As transformers writes: prompts with what the tokenizer's template puts around a text, and no word banned but
  /// those listed here. For models that others trained.
  bool as_transformers = false;
  int32_t start = -1;                           ///< what the decoder of a pair model reads first
  std::vector<int32_t> ends;                    ///< each of these ends a text
  int32_t forced_first = -1, forced_last = -1;  ///< written first; written where the length runs out
  std::vector<int32_t> banned;                  ///< never written
  int64_t beam = 0;
  int64_t max_length = 0;  ///< of what is written, the start counted
  int64_t min_length = 0;  ///< no end before so many tokens, the start counted
  int64_t no_repeat = 0;   ///< no run of so many tokens twice; 0: any
  std::string prefix;      ///< put before every text that is read: the name of a task
  double length_penalty = 1;
  bool is_eager = false;    ///< a search is done once it has as many hypotheses as its beam is wide
  bool is_patient = false;  ///< a search is done once nothing still being written could become better
};

}  // namespace attend
