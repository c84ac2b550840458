#pragma once

#include <span>
#include <vector>

#include "attend/text/tokenizer.h"
#include "text/tokenizers/json_fields.h"
#include "text/tokenizers/vocabulary.h"

namespace attend::text {

/// The special tokens around a text: ids, with kNone at the position of the text.
using TextTemplate = std::vector<int32_t>;

/// Reads the "post_processor" of tokenizer.json for a single text. Throws FormatError, which names the processor, if it
/// is unknown.
TextTemplate make_template(const Json& json);

std::vector<int32_t> fill(const TextTemplate& around, std::span<const int32_t> ids);

/// One element of a template for two texts.
struct PairPart {
  enum class Kind { token, first_text, second_text };
  Kind kind = Kind::token;
  int32_t id = kNone;  ///< only for Kind::token
  int32_t type = 0;
};
using PairTemplate = std::vector<PairPart>;
/// Reads a post-processor's template for two texts; empty if it defines none.
PairTemplate make_pair_template(const Json& json);
/// begin a end b end, without the tokens that the tokenizer does not have.
PairTemplate usual_pair_template(const SpecialTokens& special);

EncodedPair fill_pair(const PairTemplate& around, std::vector<int32_t> first, std::vector<int32_t> second,
                      int64_t longest);

}  // namespace attend::text
