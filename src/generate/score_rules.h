#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "attend/generate/vocabulary.h"
#include "attend/models/generation_rules.h"

namespace attend {

/// The context of a generated text, for the rules. The spans must outlive the rules.
struct RuledText {
  std::span<const int32_t> before;  ///< the start token or the prompt
  std::span<const int32_t> source;  ///< the source of a translation, or the prompt
  int64_t last = -1;                ///< index of the last generated token at the maximum length
};

/// Applies GenerationRules to the scores of the next token.
class ScoreRules {
 public:
  ScoreRules(const GenerationRules& rules, const Vocabulary& vocabulary, const RuledText& text)
      : rules_(rules), vocabulary_(vocabulary), text_(text) {}

  /// Whether apply() is needed. If not, banning Vocabulary::banned is enough.
  static bool are_needed(const GenerationRules& rules);

  /// The forced token after `written` generated tokens; -1 if the token is free.
  int32_t forced(int64_t written) const;
  /// Whether the next token is the last one at the maximum length, and the rules force it.
  bool is_forced_last(int64_t written) const { return rules_.forced_last >= 0 && written == text_.last; }
  /// Changes the scores of the next token after the generated tokens `written`. Banned tokens get −∞.
  void apply(std::span<float> scores, std::span<const int32_t> written) const;

 private:
  void penalize(std::span<float> scores, std::span<const int32_t> history) const;
  void ban_runs(std::span<float> scores, std::span<const int32_t> history) const;
  bool may_end(int64_t written) const;
  /// Index of the first token that is not forced. As in transformers, a forced first token after the start token counts
  /// as part of the start.
  int64_t first() const { return rules_.forced_first >= 0 && text_.before.size() == 1 ? 1 : 0; }

  const GenerationRules& rules_;
  const Vocabulary& vocabulary_;
  RuledText text_;
};

}  // namespace attend
