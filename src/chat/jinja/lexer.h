#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace attend::jinja {

enum class TokenKind { data, print_begin, print_end, block_begin, block_end, name, text, integer, real, symbol, end };

struct Token {
  TokenKind kind = TokenKind::end;
  std::string text;  ///< data, a name, the value of a string literal, or a symbol
  int line = 1;
  int64_t integer = 0;
  double real = 0;
};

/// The tokens of a template, with white space control applied as with trim_blocks and lstrip_blocks; ends with a token
/// of kind `end`. Throws FormatError for a malformed template.
std::vector<Token> tokenize(std::string_view source);

/// The value of a string literal without its quotes. Throws FormatError for a malformed escape.
std::string unescaped(std::string_view literal);

}  // namespace attend::jinja
