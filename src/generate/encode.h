#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "attend/models/generation_rules.h"
#include "attend/text/tokenizer.h"

// The token sequences models are trained on, in one place.
namespace attend {

struct EncodedText {
  std::vector<int32_t> ids;
  bool is_blank = false;  ///< no token but the special ones
  bool is_cut = false;    ///< pieces were left out to fit `longest`
};

/// What an encoder of pairs reads: pieces, of the rules' prefix, too; end; before them what the model wants first. At
/// most `longest` ids. A text without pieces of its own is blank, whatever the prefix.
EncodedText encode_source(const Tokenizer& tokenizer, std::string_view text, int64_t longest,
                          const GenerationRules& rules = {});
/// What its decoder is to write, in the same way.
EncodedText encode_target(const Tokenizer& tokenizer, std::string_view text, int64_t longest);
/// What a classifier reads: begin, pieces, end, where the vocabulary has them. At most `longest` ids.
EncodedText encode_classified(const Tokenizer& tokenizer, std::string_view text, int64_t longest);
/// The same for a text with masks in it. The mask token's name means a mask also where the tokenizer takes the names of
/// special tokens in a text for plain characters; a blank before it then belongs to the masked word.
EncodedText encode_masked(const Tokenizer& tokenizer, std::string_view text, int64_t longest);
/// What a language model goes on from: the pieces of a prompt. Training puts the end between texts, so a new text is
/// what follows an end; a vocabulary without one has the begin. With GenerationRules::as_transformers it is what the
/// tokenizer's template makes of the prompt, without the end that the template has. Throws FormatError if there is
/// nothing to start from.
std::vector<int32_t> encode_prompt(const Tokenizer& tokenizer, std::string_view prompt,
                                   const GenerationRules& rules = {});
/// The token that stands before a new text: see encode_prompt. -1 if there is none.
int32_t text_start(const Tokenizer& tokenizer);

}  // namespace attend
