#include "serve/token_text.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "attend/generate/text_stream.h"
#include "attend/text/utf8.h"
#include "text/tokenizers/byte_level.h"

namespace attend {
namespace {

constexpr std::string_view kBroken = "\uFFFD";

/// The byte of a token like <0xE4>, which SentencePiece uses for parts of characters.
std::string named_byte(const std::string& token) {
  unsigned value = 0;
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return {};
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, value, 16);
  return error == std::errc() && end == token.data() + 5 ? std::string(1, static_cast<char>(value)) : std::string();
}

/// Number of bytes at the end of `bytes` that may be the beginning of a character.
size_t incomplete_tail(std::string_view bytes) {
  for (size_t size = std::min<size_t>(bytes.size(), 3); size > 0; --size) {
    const std::string_view tail = bytes.substr(bytes.size() - size);
    const auto lead = static_cast<unsigned char>(tail[0]);
    if (lead >= 0xC2 && lead <= 0xF4 && repair_utf8(tail).text == kBroken) return size;
  }
  return 0;
}

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

/// For each character of `from`, the index of the character of `to` that it corresponds to.
std::vector<size_t> align(const std::u32string& from, const std::u32string& to) {
  constexpr size_t kFarthest = 64;  // characters that may be missing on one side
  constexpr size_t kCompared = 2;
  const auto are_equal = [&](size_t a, size_t b) {
    return std::u32string_view(from).substr(std::min(a, from.size()), kCompared) ==
           std::u32string_view(to).substr(std::min(b, to.size()), kCompared);
  };
  std::vector<size_t> result;
  for (size_t at = 0; result.size() < from.size(); ++at) {
    const size_t i = result.size();
    size_t missing = 0, extra = 0;  // characters of `to` and of `from` without a counterpart
    if (!are_equal(i, at) && !are_equal(i + 1, at + 1)) {
      for (size_t skip = 1; skip <= kFarthest && missing + extra == 0; ++skip) {
        if (are_equal(i, at + skip)) missing = skip;
        if (missing == 0 && are_equal(i + skip, at)) extra = skip;
      }
    }
    at = std::min(at + missing, to.size());
    result.resize(std::min(i + extra + 1, from.size()), at);
  }
  return result;
}

}  // namespace

TokenText token_text(const Tokenizer& tokenizer, int32_t id) {
  if (id < 0 || id >= tokenizer.size()) return {};
  // A tokenizer may drop the space before the first token, so the token is decoded behind itself.
  const std::array<int32_t, 2> twice{id, id};
  const std::string once = tokenizer.decode(std::span(twice).first(1), true), both = tokenizer.decode(twice, true);
  TokenText result{.text = both.starts_with(once) ? both.substr(once.size()) : once, .bytes = {}};
  result.bytes = result.text;
  if (result.text.find(kBroken) == std::string::npos) return result;
  const std::string token = tokenizer.token(id);
  std::string bytes = named_byte(token);
  if (bytes.empty()) bytes = text::bytes_of_spelling(token).value_or("");
  if (!bytes.empty() && repair_utf8(bytes).text == once) result.bytes = std::move(bytes);
  return result;
}

std::string token_name(const Tokenizer& tokenizer, int32_t id) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const TokenText token = token_text(tokenizer, id);
  if (!token.is_part()) return token.text;
  std::string result = "bytes:";
  for (const char c : token.bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= ' ' && byte <= '~' && c != '\\') {
      result += c;
    } else {
      result += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return result;
}

size_t characters_in(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char c) { return !is_continuation(c); }));
}

size_t TextOffsets::push(const TokenText& token, std::string_view piece) {
  length_ += characters_in(piece);
  if (token.is_part()) return push_part(token.bytes, piece);
  if (piece.empty()) {  // a special token, which the text does not show, or a character of unknown bytes
    is_known_ &= token.text.find(kBroken) == std::string::npos;
    return next_;
  }
  const size_t own = is_known_ ? next_ : length_ - std::min(length_, characters_in(token.text));
  next_ = length_;
  tail_.clear();
  is_known_ = true;
  return own;
}

size_t TextOffsets::push_part(const std::string& bytes, std::string_view piece) {
  const bool continues = !tail_.empty() && is_continuation(bytes[0]) && repair_utf8(tail_ + bytes[0]).replaced <= 1;
  if (!tail_.empty() && !continues) {
    ++next_;  // the character stays incomplete: U+FFFD
    tail_.clear();
  }
  const size_t own = next_;
  tail_ += bytes;
  const size_t rest = incomplete_tail(tail_);
  const std::string whole = repair_utf8(tail_.substr(0, tail_.size() - rest)).text;
  tail_.erase(0, tail_.size() - rest);
  next_ += characters_in(whole);
  is_known_ = tail_.empty() && !piece.empty() && !whole.ends_with(kBroken);
  if (is_known_) next_ = length_;
  return own;
}

std::vector<size_t> offsets_in(const Tokenizer& tokenizer, std::span<const int32_t> ids, const std::string& text) {
  TextStream stream(tokenizer);
  TextOffsets offsets(0);
  std::vector<size_t> result;
  std::vector<bool> has_text;
  std::string decoded;
  for (const int32_t id : ids) {
    const std::string piece = stream.push(id);
    const TokenText token = token_text(tokenizer, id);
    result.push_back(offsets.push(token, piece));
    has_text.push_back(token.is_part() || !piece.empty());
    decoded += piece;
  }
  decoded += stream.finish();
  if (decoded == text || !is_utf8(decoded) || !is_utf8(text)) return result;
  const std::vector<size_t> places = align(code_points(lower_case(decoded)), code_points(lower_case(text)));
  for (size_t i = 0; i < result.size(); ++i) {
    const size_t at = std::min(result[i], places.size());
    const bool is_after = at == places.size() || !has_text[i];  // of the last character before it
    result[i] = is_after ? (at == 0 ? 0 : places[at - 1] + 1) : places[at];
  }
  return result;
}

}  // namespace attend
