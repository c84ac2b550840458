#include "serve/token_text.h"

#include <array>
#include <charconv>

#include "io/printable.h"
#include "text/tokenizers/byte_level.h"

namespace attend {
namespace {

/// The byte of a token like <0xE4>, which SentencePiece uses for parts of characters.
std::string named_byte(const std::string& token) {
  unsigned value = 0;
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return {};
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, value, 16);
  return error == std::errc() && end == token.data() + 5 ? std::string(1, static_cast<char>(value)) : std::string();
}

}  // namespace

TokenText token_text(const Tokenizer& tokenizer, int32_t id) {
  if (id < 0 || id >= tokenizer.size()) return {};
  // A tokenizer may drop the space before the first token, so the token is decoded behind itself.
  const std::array<int32_t, 2> twice{id, id};
  const std::string once = tokenizer.decode(std::span(twice).first(1), true), both = tokenizer.decode(twice, true);
  TokenText result{.text = both.starts_with(once) ? both.substr(once.size()) : once, .bytes = {}};
  result.bytes = result.text;
  if (result.text.find("\xEF\xBF\xBD") == std::string::npos) return result;
  const std::string token = tokenizer.token(id);
  result.bytes = named_byte(token);
  if (result.bytes.empty()) result.bytes = text::bytes_of_spelling(token).value_or(result.text);
  return result;
}

}  // namespace attend
