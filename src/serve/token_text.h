#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attend/text/tokenizer.h"

namespace attend {

/// A token as OpenAI's API shows it.
struct TokenText {
  std::string text;   ///< part of a character is U+FFFD
  std::string bytes;  ///< UTF-8, or a part of a character

  /// Whether the token has bytes of an incomplete character.
  bool is_part() const { return text != bytes; }
};

/// The text of a token within a text, with the space before it.
TokenText token_text(const Tokenizer& tokenizer, int32_t id);
/// The text of a token; if it is part of a character, its bytes, such as "bytes:\xe5\xae".
std::string token_name(const Tokenizer& tokenizer, int32_t id);

/// Number of code points.
size_t characters_in(std::string_view text);

/// Tells at which character of a text each token begins. A token that continues a character begins where the character
/// does.
class TextOffsets {
 public:
  /// The first token begins at this character.
  explicit TextOffsets(size_t begin) : length_(begin), next_(begin) {}

  /// The character at which a token begins. `piece` is the text that TextStream returned for the token.
  size_t push(const TokenText& token, std::string_view piece);

 private:
  size_t push_part(const std::string& bytes, std::string_view piece);

  size_t length_;         // characters of the text that TextStream returned
  size_t next_;           // first character of the next token
  std::string tail_;      // bytes of an incomplete character at next_
  bool is_known_ = true;  // TextStream returned all text before next_
};

/// The characters of `text` at which the tokens begin that were read from it. Where decoding does not restore the text,
/// the offsets are those of the most similar characters.
std::vector<size_t> offsets_in(const Tokenizer& tokenizer, std::span<const int32_t> ids, const std::string& text);

}  // namespace attend
