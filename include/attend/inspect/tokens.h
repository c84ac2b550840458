#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attend/text/tokenizer.h"

// Tokens in readable form.
namespace attend {

enum class TokenKind { text, byte, special };

struct ShownToken {
  int32_t id = 0;
  std::string text;    ///< without ▁, Ġ, ## or a leading space; a byte as two hexadecimal digits
  bool space = false;  ///< the token has a leading space
  TokenKind kind = TokenKind::text;
  int64_t start = 0, end = 0;  ///< byte range in the text; for a byte, the range of its whole character
  int64_t word = -1;           ///< index of the token's word; -1: none
};

/// A single token: sets id, text, space and kind. An id that is not in the vocabulary is shown as #id.
ShownToken show_token(const Tokenizer& tokenizer, int32_t id);

/// The tokens of `text`, including special tokens, with their byte ranges. A tokenizer may normalise the text before
/// splitting it (lower case, other forms of a character). Tokens that are not found in the text share the range between
/// the neighbouring tokens that are. Words are those of words_of() in attend/generate/align.h.
std::vector<ShownToken> show_tokens(const Tokenizer& tokenizer, std::span<const int32_t> ids, const std::string& text);

/// A token of an image model: index 0 is the whole image, [CLS]; then the patches row by row: r1c1, r1c2, ….
ShownToken show_patch(int64_t index, int64_t columns);

}  // namespace attend
