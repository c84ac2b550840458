#pragma once

#include <span>
#include <vector>

#include "attend/text/tokenizer.h"
#include "text/tokenizers/json_fields.h"
#include "text/tokenizers/vocabulary.h"

namespace attend::text {

/// What a tokenizer puts around a text: ids, and kNone where the text goes.
using TextTemplate = std::vector<int32_t>;

/// The "post_processor" of tokenizer.json, as far as it concerns a single text. Throws FormatError naming one that is
/// not known.
TextTemplate make_template(const Json& json);

std::vector<int32_t> fill(const TextTemplate& around, std::span<const int32_t> ids);

/// One place of a template for two texts.
struct PairPart {
  enum class Kind { token, first_text, second_text };
  Kind kind = Kind::token;
  int32_t id = kNone;  ///< of a token
  int32_t type = 0;
};
using PairTemplate = std::vector<PairPart>;
/// What a post-processor makes of two texts; empty where it says nothing of them.
PairTemplate make_pair_template(const Json& json);
/// begin a end b end, where there are such.
PairTemplate usual_pair_template(const SpecialTokens& special);

EncodedPair fill_pair(const PairTemplate& around, std::vector<int32_t> first, std::vector<int32_t> second,
                      int64_t longest);

}  // namespace attend::text
