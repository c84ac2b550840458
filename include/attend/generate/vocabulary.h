#pragma once

#include <cstdint>
#include <vector>

#include "attend/models/generation_rules.h"
#include "attend/text/tokenizer.h"

namespace attend {

/// The tokens that generation may produce.
struct Vocabulary {
  int64_t size = 0;             ///< ids must be below this; a model may have more rows than the tokenizer has tokens
  std::vector<int32_t> banned;  ///< never generated: pad, begin, mask and unknown, unless they are also end tokens
  int32_t begin = -1;           ///< start token of a translation decoder; the end token if there is no begin; -1: none
  std::vector<int32_t> ends;    ///< end-of-text tokens; the first one is used to end a text

  /// The vocabulary of a tokenizer, with the changes of the rules. With GenerationRules::as_transformers only the
  /// tokens that the rules ban are banned. Throws FormatError if the tokenizer or the rules do not match the model's
  /// vocabulary size.
  static Vocabulary of(const Tokenizer& tokenizer, int64_t vocab_size, const GenerationRules& rules = {});
  bool is_banned(int32_t id) const;
  bool is_end(int32_t id) const;
  int32_t end() const { return ends.empty() ? -1 : ends.front(); }
};

}  // namespace attend
