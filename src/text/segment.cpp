#include "attend/text/segment.h"

#include <unicode/brkiter.h>
#include <unicode/ubrk.h>
#include <unicode/uchar.h>
#include <unicode/utext.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <memory>

#include "attend/base/error.h"
#include "io/printable.h"

namespace attend {
namespace {

void check(UErrorCode status, const char* what) {
  require<Error>(U_SUCCESS(status), "segment: ICU cannot ", what, ": ", u_errorName(status));
}

enum class Unit { word, grapheme };

std::unique_ptr<icu::BreakIterator> make_iterator(Unit unit) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Locale& root = icu::Locale::getRoot();  // independent of the user's locale
  std::unique_ptr<icu::BreakIterator> iterator(unit == Unit::word
                                                   ? icu::BreakIterator::createWordInstance(root, status)
                                                   : icu::BreakIterator::createCharacterInstance(root, status));
  check(status, "load its break rules");
  return iterator;
}

/// Calls visit(piece, rule status) for each unit of the text. Works on UTF-8 bytes without converting the text.
template <class Visit>
void for_each_unit(icu::BreakIterator& iterator, std::string_view text, Visit&& visit) {
  UErrorCode status = U_ZERO_ERROR;
  UText input = UTEXT_INITIALIZER;
  utext_openUTF8(&input, text.data(), static_cast<int64_t>(text.size()), &status);
  iterator.setText(&input, status);
  utext_close(&input);  // the iterator keeps its own clone
  check(status, "read the text");
  int32_t begin = iterator.first();
  for (int32_t end = iterator.next(); end != icu::BreakIterator::DONE; begin = end, end = iterator.next()) {
    visit(text.substr(static_cast<size_t>(begin), static_cast<size_t>(end - begin)), iterator.getRuleStatus());
  }
}

void require_utf8(std::string_view text) {
  const size_t valid = valid_utf8_prefix(text);
  require<FormatError>(valid == text.size(), "text: expected UTF-8, got an invalid sequence at byte ", valid);
  require<FormatError>(text.size() <= 0x7fffffff, "text: expected at most 2 GiB, got ", text.size(), " bytes");
}

/// Calls visit(code point), with -1 for invalid bytes, until it returns false.
template <class Visit>
void for_each_code_point(std::string_view text, Visit&& visit) {
  const auto size = static_cast<int64_t>(text.size());
  for (int64_t at = 0; at < size;) {
    UChar32 code = 0;
    U8_NEXT(text.data(), at, size, code);
    if (!visit(code)) return;
  }
}

bool is_blank(std::string_view piece) {
  bool blank = true;
  for_each_code_point(piece, [&](UChar32 code) {
    blank = u_isUWhiteSpace(code) || u_hasBinaryProperty(code, UCHAR_DEFAULT_IGNORABLE_CODE_POINT);
    return blank;
  });
  return blank;
}

/// The width according to wcwidth in most terminals. Spacing marks (Mc) take a column.
int code_point_width(UChar32 code) {
  if (code < 0x20 || (code >= 0x7f && code < 0xa0)) return 1;
  const int32_t category = u_charType(code);
  if (category == U_NON_SPACING_MARK || category == U_ENCLOSING_MARK || category == U_FORMAT_CHAR) return 0;
  if (code >= 0x1160 && code <= 0x11ff) return 0;  // Hangul vowels and finals are drawn inside the syllable
  const int32_t width = u_getIntPropertyValue(code, UCHAR_EAST_ASIAN_WIDTH);
  return width == U_EA_WIDE || width == U_EA_FULLWIDTH ? 2 : 1;
}

/// Whether a grapheme is drawn as an emoji. Sequences (flags, families, skin tones, keycaps, ☀️) are drawn as one
/// emoji.
bool is_emoji(std::string_view grapheme) {
  bool emoji = false, pictographic = false;
  int index = 0;
  for_each_code_point(grapheme, [&](UChar32 code) {
    if (code < 0) return false;
    if (index++ == 0) {
      pictographic = u_hasBinaryProperty(code, UCHAR_EMOJI);
      emoji = u_hasBinaryProperty(code, UCHAR_EMOJI_PRESENTATION);
    } else {
      emoji = emoji || (pictographic && code == 0xfe0f) || (code >= 0x1f1e6 && code <= 0x1f1ff);
    }
    return pictographic && !emoji;
  });
  return emoji;
}

int grapheme_width(std::string_view grapheme) {
  if (is_emoji(grapheme)) return 2;
  int width = 0;
  for_each_code_point(grapheme, [&](UChar32 code) { return width += code_point_width(code), true; });
  return width;
}

void append_code_point(std::string& out, UChar32 code) {
  char bytes[U8_MAX_LENGTH];
  int32_t length = 0;
  U8_APPEND_UNSAFE(bytes, length, code);
  out.append(bytes, static_cast<size_t>(length));
}

}  // namespace

std::vector<std::string> graphemes(std::string_view text) {
  require_utf8(text);
  std::vector<std::string> result;
  for_each_unit(*make_iterator(Unit::grapheme), text,
                [&](std::string_view piece, int32_t) { result.emplace_back(piece); });
  return result;
}

std::vector<std::string> segment(std::string_view text) {
  require_utf8(text);
  const auto words = make_iterator(Unit::word), characters = make_iterator(Unit::grapheme);
  std::vector<std::string> result;
  for_each_unit(*words, text, [&](std::string_view word, int32_t status) {
    const bool is_word = status >= UBRK_WORD_NUMBER && status < UBRK_WORD_KANA;
    if (is_word) {
      result.emplace_back(word);
      return;
    }
    for_each_unit(*characters, word, [&](std::string_view character, int32_t) {
      if (!is_blank(character)) result.emplace_back(character);
    });
  });
  return result;
}

int display_width(std::string_view text) {
  const bool ascii = std::ranges::all_of(text, [](char byte) { return static_cast<signed char>(byte) >= 0; });
  if (ascii) return static_cast<int>(text.size());
  int width = 0;
  for_each_unit(*make_iterator(Unit::grapheme), text,
                [&](std::string_view piece, int32_t) { width += grapheme_width(piece); });
  return width;
}

std::string visible(std::string_view text) {
  std::string result;
  for_each_code_point(text, [&](UChar32 code) {
    if (code < 0 || (code >= 0x80 && code < 0xa0))
      code = 0xfffd;
    else if (code < 0x20)
      code += 0x2400;
    else if (code == 0x7f)
      code = 0x2421;
    append_code_point(result, code);
    return true;
  });
  if (!result.empty() && display_width(result) == 0) result.insert(0, "\u25cc");
  return result;
}

}  // namespace attend
