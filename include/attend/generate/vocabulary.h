#pragma once

#include <cstdint>
#include <vector>

#include "attend/models/generation_rules.h"
#include "attend/text/tokenizer.h"

namespace attend {

/// What generation may write.
struct Vocabulary {
  int64_t size = 0;             ///< ids below this: a model's matrix may have more rows than the tokenizer has tokens
  std::vector<int32_t> banned;  ///< never written: pad, begin, mask and unknown (unless they are the end, too)
  int32_t begin = -1;           ///< what a decoder of pairs starts from: the end where there is no begin; -1: none
  std::vector<int32_t> ends;    ///< each ends a text; the first is the one to write

  /// What the tokenizer says, or the rules where they say more. With GenerationRules::as_transformers only what the
  /// rules ban is banned. Throws FormatError if the tokenizer does not fit the model's vocabulary size.
  static Vocabulary of(const Tokenizer& tokenizer, int64_t vocab_size, const GenerationRules& rules = {});
  bool is_banned(int32_t id) const;
  bool is_end(int32_t id) const;
  int32_t end() const { return ends.empty() ? -1 : ends.front(); }
};

}  // namespace attend
