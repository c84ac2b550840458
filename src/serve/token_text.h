#pragma once

#include <string>

#include "attend/text/tokenizer.h"

namespace attend {

/// A token as OpenAI's API shows it.
struct TokenText {
  std::string text;   ///< part of a character is U+FFFD
  std::string bytes;  ///< UTF-8, or a part of a character
};

/// The text of a token within a text, with the space before it.
TokenText token_text(const Tokenizer& tokenizer, int32_t id);

}  // namespace attend
