#include "attend/text/utf8.h"

#include <unicode/bytestream.h>
#include <unicode/casemap.h>
#include <unicode/uchar.h>
#include <unicode/utf8.h>

#include <bit>
#include <cstring>

#include "attend/base/error.h"
#include "io/printable.h"

namespace attend {
namespace {

/// Number of leading ASCII bytes. Checks eight bytes at a time, because most text is ASCII.
size_t ascii_prefix(std::string_view text) {
  constexpr uint64_t kHigh = 0x8080808080808080u;
  size_t at = 0;
  for (; at + 8 <= text.size(); at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + at, 8);
    if ((word & kHigh) != 0) break;
  }
  while (at < text.size() && static_cast<unsigned char>(text[at]) < 0x80) ++at;
  return at;
}

UChar32 next_code_point(std::string_view text, int64_t& at) {
  UChar32 code = 0;
  U8_NEXT(text.data(), at, static_cast<int64_t>(text.size()), code);
  return code;
}

[[noreturn]] void refuse(std::string_view text) {
  throw FormatError("text: expected UTF-8, got an invalid sequence at byte " + std::to_string(valid_utf8_prefix(text)));
}

}  // namespace

bool is_utf8(std::string_view text) {
  text.remove_prefix(ascii_prefix(text));
  return valid_utf8_prefix(text) == text.size();
}

RepairedText repair_utf8(std::string_view text) {
  RepairedText result;
  for (int64_t at = 0; at < static_cast<int64_t>(text.size());) {
    const int64_t begin = at;
    if (next_code_point(text, at) >= 0) {
      result.text += text.substr(static_cast<size_t>(begin), static_cast<size_t>(at - begin));
    } else {
      result.text += "\ufffd";
      ++result.replaced;
    }
  }
  return result;
}

std::u32string code_points(std::string_view text) {
  std::u32string result;
  result.reserve(text.size());
  for (int64_t at = 0; at < static_cast<int64_t>(text.size());) {
    const UChar32 code = next_code_point(text, at);
    if (code < 0) refuse(text);
    result += static_cast<char32_t>(code);
  }
  return result;
}

void append_utf8(std::string& out, char32_t code) {
  require<ShapeError>(code <= 0x10ffff && !U_IS_SURROGATE(code), "append_utf8: expected a Unicode scalar value, got ",
                      static_cast<uint32_t>(code));
  char bytes[U8_MAX_LENGTH];
  size_t length = 0;
  U8_APPEND_UNSAFE(bytes, length, static_cast<uint32_t>(code));
  out.append(bytes, length);
}

std::string to_utf8(std::u32string_view text) {
  std::string result;
  result.reserve(text.size());
  for (const char32_t code : text) append_utf8(result, code);
  return result;
}

bool is_blank(std::string_view text) {
  for (int64_t at = 0; at < static_cast<int64_t>(text.size());) {
    const UChar32 code = next_code_point(text, at);
    if (code < 0 || !u_isUWhiteSpace(code)) return false;
  }
  return true;
}

std::string lower_case(std::string_view text) {
  if (!is_utf8(text)) refuse(text);
  require<FormatError>(text.size() <= 0x7fffffff, "text: expected at most 2 GiB, got ", text.size(), " bytes");
  std::string result;
  icu::StringByteSink<std::string> sink(&result, static_cast<int32_t>(text.size()));
  UErrorCode status = U_ZERO_ERROR;
  icu::CaseMap::utf8ToLower("", 0, icu::StringPiece(text.data(), static_cast<int32_t>(text.size())), sink, nullptr,
                            status);
  require<Error>(U_SUCCESS(status), "lower_case: ICU reports ", u_errorName(status));
  return result;
}

}  // namespace attend
