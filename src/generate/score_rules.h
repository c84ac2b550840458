#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "attend/generate/vocabulary.h"
#include "attend/models/generation_rules.h"

namespace attend {

/// The text that is being written, for what the rules ask about it. All of it must outlive the rules.
struct RuledText {
  std::span<const int32_t> before;  ///< the start, or the prompt
  std::span<const int32_t> source;  ///< what an encoder read, or the prompt
  int64_t last = -1;                ///< number of the word, from 0, that is the last one
};

/// What the rules of a folder make of the scores of the next word: see GenerationRules.
class ScoreRules {
 public:
  ScoreRules(const GenerationRules& rules, const Vocabulary& vocabulary, const RuledText& text)
      : rules_(rules), vocabulary_(vocabulary), text_(text) {}

  /// Whether any of the rules looks at what was written: else nothing but Vocabulary::banned is to be done.
  static bool are_needed(const GenerationRules& rules);

  /// The word that is written whatever the model thinks, behind so many; -1: none.
  int32_t forced(int64_t written) const;
  /// Whether the length runs out with this word, and the rules write it.
  bool is_forced_last(int64_t written) const { return rules_.forced_last >= 0 && written == text_.last; }
  /// Changes the scores of all words that may come behind `written`; those that may not get −∞.
  void apply(std::span<float> scores, std::span<const int32_t> written) const;

 private:
  void penalize(std::span<float> scores, std::span<const int32_t> history) const;
  void ban_runs(std::span<float> scores, std::span<const int32_t> history) const;
  bool may_end(int64_t written) const;
  /// Without a word before it, transformers counts a forced first word as the beginning.
  int64_t first() const { return rules_.forced_first >= 0 && text_.before.size() == 1 ? 1 : 0; }

  const GenerationRules& rules_;
  const Vocabulary& vocabulary_;
  RuledText text_;
};

}  // namespace attend
