#include <unicode/bytestream.h>
#include <unicode/casemap.h>
#include <unicode/stringoptions.h>
#include <unicode/stringpiece.h>
#include <unicode/uchar.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "chat/jinja/strings.h"
#include "text/unicode.h"

namespace attend::jinja {
namespace {

UChar32 uchar(char32_t code) { return static_cast<UChar32>(code); }
bool is_cased(char32_t code) { return u_hasBinaryProperty(uchar(code), UCHAR_CASED) != 0; }
bool is_upper(char32_t code) { return u_isUUppercase(uchar(code)) != 0; }
bool is_lower(char32_t code) { return u_isULowercase(uchar(code)) != 0; }
bool is_title(char32_t code) { return u_istitle(uchar(code)) != 0; }

enum class Mapping { upper, lower, fold, capitalize };

std::string mapped(std::string_view text, Mapping mapping) {
  std::string out;
  out.reserve(text.size());
  icu::StringByteSink<std::string> sink(&out);
  UErrorCode status = U_ZERO_ERROR;
  const icu::StringPiece piece(text.data(), static_cast<int32_t>(text.size()));
  if (mapping == Mapping::upper) {
    icu::CaseMap::utf8ToUpper("", 0, piece, sink, nullptr, status);
  } else if (mapping == Mapping::lower) {
    icu::CaseMap::utf8ToLower("", 0, piece, sink, nullptr, status);
  } else if (mapping == Mapping::fold) {
    icu::CaseMap::utf8Fold(0, piece, sink, nullptr, status);
  } else {
    constexpr uint32_t kOptions = U_TITLECASE_WHOLE_STRING | U_TITLECASE_NO_BREAK_ADJUSTMENT;
    icu::CaseMap::utf8ToTitle("", kOptions, nullptr, piece, sink, nullptr, status);
  }
  if (U_FAILURE(status)) fail("ICU cannot map the case of a text: ", u_errorName(status));
  return out;
}

int numeric_type(char32_t code) { return u_getIntPropertyValue(uchar(code), UCHAR_NUMERIC_TYPE); }
bool is_decimal(char32_t code) { return numeric_type(code) == U_NT_DECIMAL; }
bool is_digit(char32_t code) { return is_decimal(code) || numeric_type(code) == U_NT_DIGIT; }
bool is_numeric(char32_t code) { return numeric_type(code) != U_NT_NONE; }
bool is_alpha(char32_t code) { return text::is_letter(code); }
bool is_alnum(char32_t code) { return is_alpha(code) || is_numeric(code); }
bool is_ascii(char32_t code) { return code < 0x80; }
bool is_printable(char32_t code) {
  constexpr uint32_t kHidden = U_GC_C_MASK | U_GC_Z_MASK;
  return code == ' ' || (U_GET_GC_MASK(uchar(code)) & kHidden) == 0;
}

bool is_title_text(std::string_view text) {
  bool found = false, after_cased = false, ok = true;
  text::for_each_code_point(text, [&](char32_t code, std::string_view) {
    if (is_upper(code) || is_title(code)) {
      ok = ok && !after_cased;
    } else if (is_lower(code)) {
      ok = ok && after_cased;
    }
    after_cased = is_upper(code) || is_title(code) || is_lower(code);
    found = found || after_cased;
  });
  return ok && found;
}

/// Whether all characters with case satisfy `is_right` and there is one.
template <class Test>
bool has_case(std::string_view text, Test is_right) {
  bool found = false, ok = true;
  text::for_each_code_point(text, [&](char32_t code, std::string_view) {
    if (!is_upper(code) && !is_lower(code) && !is_title(code)) return;
    ok = ok && is_right(code);
    found = true;
  });
  return ok && found;
}

template <class Test>
bool all_of(std::string_view text, Test test) {
  bool ok = true;
  text::for_each_code_point(text, [&](char32_t code, std::string_view) { ok = ok && test(code); });
  return ok;
}

}  // namespace

std::string upper_case_of(std::string_view text) { return mapped(text, Mapping::upper); }
std::string lower_case_of(std::string_view text) { return mapped(text, Mapping::lower); }
std::string folded_case(std::string_view text) { return mapped(text, Mapping::fold); }
std::string capitalized(std::string_view text) { return text.empty() ? "" : mapped(text, Mapping::capitalize); }

std::string title_case_of(std::string_view text) {
  std::string out;
  size_t word = 0, at = 0;  // `word`: start of the current run of characters with case
  while (at < text.size()) {
    const size_t begin = at;
    if (is_cased(text::next_code_point(text, at))) continue;
    out += capitalized(text.substr(word, begin - word));
    out += text.substr(begin, at - begin);
    word = at;
  }
  return out += capitalized(text.substr(word));
}

std::string swapped_case(std::string_view text) {
  std::string out;
  text::for_each_code_point(text, [&](char32_t code, std::string_view bytes) {
    out += is_upper(code) ? lower_case_of(bytes) : is_lower(code) ? upper_case_of(bytes) : std::string(bytes);
  });
  return out;
}

std::optional<bool> has_property(std::string_view text, std::string_view name) {
  const auto every = [&](auto test) { return !text.empty() && all_of(text, test); };
  if (name == "alpha") return every(is_alpha);
  if (name == "alnum") return every(is_alnum);
  if (name == "digit") return every(is_digit);
  if (name == "decimal") return every(is_decimal);
  if (name == "numeric") return every(is_numeric);
  if (name == "space") return every(is_python_space);
  if (name == "ascii") return all_of(text, is_ascii);
  if (name == "printable") return all_of(text, is_printable);
  if (name == "upper") return has_case(text, is_upper);
  if (name == "lower") return has_case(text, is_lower);
  if (name == "title") return is_title_text(text);
  if (name != "identifier") return std::nullopt;
  if (text.empty()) return false;
  size_t at = 0;
  const char32_t first = text::next_code_point(text, at);
  return (first == '_' || u_hasBinaryProperty(uchar(first), UCHAR_XID_START) != 0) &&
         all_of(text, [](char32_t code) { return u_hasBinaryProperty(uchar(code), UCHAR_XID_CONTINUE) != 0; });
}

std::string python_quoted(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, quote);
  text::for_each_code_point(text, [&](char32_t code, std::string_view bytes) {
    if (code == '\\' || code == static_cast<char32_t>(quote)) {
      (out += '\\') += bytes;
    } else if (code == '\n') {
      out += "\\n";
    } else if (code == '\r') {
      out += "\\r";
    } else if (code == '\t') {
      out += "\\t";
    } else if (is_printable(code)) {
      out += bytes;
    } else {
      std::array<char, 16> escape{};
      const char* format = code < 0x100 ? "\\x%02x" : code < 0x10000 ? "\\u%04x" : "\\U%08x";
      std::snprintf(escape.data(), escape.size(), format, static_cast<unsigned>(code));
      out += escape.data();
    }
  });
  return out += quote;
}

}  // namespace attend::jinja
