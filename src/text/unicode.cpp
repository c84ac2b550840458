#include "text/unicode.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/stringpiece.h>
#include <unicode/uchar.h>
#include <unicode/utf8.h>

#include <cstring>

#include "attend/base/error.h"
#include "io/printable.h"

namespace attend::text {
namespace {

bool in_category(char32_t code, uint32_t mask) { return (U_GET_GC_MASK(static_cast<UChar32>(code)) & mask) != 0; }

const icu::Normalizer2& normalizer(NormalForm form) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* found = form == NormalForm::nfc    ? icu::Normalizer2::getNFCInstance(status)
                                  : form == NormalForm::nfd  ? icu::Normalizer2::getNFDInstance(status)
                                  : form == NormalForm::nfkc ? icu::Normalizer2::getNFKCInstance(status)
                                                             : icu::Normalizer2::getNFKDInstance(status);
  require<Error>(U_SUCCESS(status), "text: ICU cannot load its normal forms: ", u_errorName(status));
  return *found;
}

}  // namespace

size_t ascii_prefix(std::string_view text) {
  constexpr uint64_t kHighBits = 0x8080808080808080u;
  size_t at = 0;
  for (uint64_t word; at + sizeof word <= text.size(); at += sizeof word) {
    std::memcpy(&word, text.data() + at, sizeof word);
    if ((word & kHighBits) != 0) break;
  }
  while (at < text.size() && static_cast<signed char>(text[at]) >= 0) ++at;
  return at;
}

void require_utf8(std::string_view text) {
  require<FormatError>(text.size() <= 0x7fffffff, "text: expected at most 2 GiB, got ", text.size(), " bytes");
  const size_t ascii = ascii_prefix(text);
  if (ascii == text.size()) return;
  const size_t valid = ascii + valid_utf8_prefix(text.substr(ascii));
  require<FormatError>(valid == text.size(), "text: expected UTF-8, got an invalid sequence at byte ", valid);
}

char32_t next_code_point(std::string_view text, size_t& at) {
  UChar32 code = 0;
  U8_NEXT_UNSAFE(text.data(), at, code);
  return static_cast<char32_t>(code);
}

bool is_space(char32_t code) { return u_isUWhiteSpace(static_cast<UChar32>(code)); }
bool is_word(char32_t code) {
  constexpr uint32_t kMask = U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK;
  return u_isUAlphabetic(static_cast<UChar32>(code)) || in_category(code, kMask) || code == 0x200c || code == 0x200d;
}
bool is_letter(char32_t code) { return in_category(code, U_GC_L_MASK); }
bool is_number(char32_t code) { return in_category(code, U_GC_N_MASK); }
bool is_punctuation(char32_t code) {
  return in_category(code, U_GC_P_MASK) || (code < 0x80 && in_category(code, U_GC_S_MASK));
}
bool is_mark(char32_t code) { return in_category(code, U_GC_M_MASK); }
bool is_nonspacing_mark(char32_t code) { return in_category(code, U_GC_MN_MASK); }
bool is_other(char32_t code) { return in_category(code, U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK); }

std::string normalized(std::string_view text, NormalForm form) {
  if (is_ascii(text)) return std::string(text);
  std::string out;
  out.reserve(text.size());
  UErrorCode status = U_ZERO_ERROR;
  icu::StringByteSink<std::string> sink(&out);
  normalizer(form).normalizeUTF8(0, {text.data(), static_cast<int32_t>(text.size())}, sink, nullptr, status);
  require<Error>(U_SUCCESS(status), "text: ICU cannot normalise: ", u_errorName(status));
  return out;
}

std::string lowercased(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for_each_code_point(text, [&](char32_t code, std::string_view) {
    append_utf8(out, static_cast<char32_t>(u_tolower(static_cast<UChar32>(code))));
    if (code == 0x130) out += "\u0307";  // İ is the only character whose lower case has two code points
  });
  return out;
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  size_t at = 0;
  for (size_t found; (found = text.find(from, at)) != std::string_view::npos; at = found + from.size()) {
    out += text.substr(at, found - at);
    out += to;
  }
  return out += text.substr(at);
}

}  // namespace attend::text
