#include "attend/text/readable_token.h"

#include "text/tokenizers/byte_level.h"
#include "text/unicode.h"

namespace attend {

std::string readable_token(const Tokenizer& tokenizer, int32_t id) {
  const std::string token = tokenizer.token(id);
  const auto bytes = text::bytes_of_spelling(token);
  // Another vocabulary may contain Ã© as ordinary text: it is a spelling of bytes only if it decodes to them.
  const bool is_spelling = bytes && is_utf8(*bytes) && tokenizer.decode(std::vector{id}, true) == *bytes;
  if (!is_spelling) return token;
  std::string out;
  text::for_each_code_point(*bytes, [&](char32_t code, std::string_view character) {
    out += code < 0x80 ? std::string_view(text::byte_spelling(static_cast<unsigned char>(code))) : character;
  });
  return out;
}

}  // namespace attend
