#include "attend/generate/vocabulary.h"

#include <algorithm>

#include "attend/base/error.h"
#include "text/framing.h"

namespace attend {

Vocabulary Vocabulary::of(const Tokenizer& tokenizer, int64_t vocab_size, const GenerationRules& rules) {
  require<FormatError>(tokenizer.size() <= vocab_size, "the tokenizer has ", tokenizer.size(),
                       " tokens, but the model's vocabulary only ", vocab_size, ": they do not belong together");
  const SpecialTokens& special = tokenizer.special();
  Vocabulary result{.size = rules.as_transformers ? vocab_size : tokenizer.size(),
                    .banned = rules.banned,
                    .begin = rules.start >= 0 ? rules.start : decoder_start(special),
                    .ends = rules.ends};
  if (result.ends.empty() && special.end >= 0) result.ends = {special.end};
  for (const int32_t id : {special.pad, special.begin, special.mask, special.unknown}) {
    if (id >= 0 && !rules.as_transformers && !result.is_end(id) && !result.is_banned(id)) result.banned.push_back(id);
  }
  for (const int32_t id : {rules.start, rules.forced_first, rules.forced_last}) {
    require<FormatError>(id < vocab_size, "the generation settings name token ", id, ", but the model has only ",
                         vocab_size, " tokens");
  }
  std::erase_if(result.ends, [&](int32_t id) { return id >= result.size; });
  return result;
}

bool Vocabulary::is_banned(int32_t id) const { return std::ranges::find(banned, id) != banned.end(); }
bool Vocabulary::is_end(int32_t id) const { return std::ranges::find(ends, id) != ends.end(); }

}  // namespace attend
