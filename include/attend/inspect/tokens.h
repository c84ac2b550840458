#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attend/text/tokenizer.h"

// Tokens as people read them.
namespace attend {

enum class TokenKind { text, byte, special };

struct ShownToken {
  int32_t id = 0;
  std::string text;    ///< without ▁, Ġ or ##, and without a blank in front; a byte as two hexadecimal digits
  bool space = false;  ///< a blank stands in front of it
  TokenKind kind = TokenKind::text;
  int64_t start = 0, end = 0;  ///< bytes of the text it stands for; a byte's are those of its whole character
  int64_t word = -1;           ///< tokens of one word share its number; -1: of none
};

/// One token on its own: id, text, space and kind. An id the vocabulary does not have is shown as #id.
ShownToken show_token(const Tokenizer& tokenizer, int32_t id);

/// The tokens of `text`, special ones among them, with their places in it. A tokenizer may have changed the text before
/// cutting it (lower case, other forms of a character): tokens that are not found in it as they are share the place
/// between those that are. Words are those of attend/generate/align.h.
std::vector<ShownToken> show_tokens(const Tokenizer& tokenizer, std::span<const int32_t> ids, const std::string& text);

/// A token of a model that reads pictures: 0 stands for the whole, [CLS]; then the patches row by row, r1c1, r1c2, ….
ShownToken show_patch(int64_t index, int64_t columns);

}  // namespace attend
