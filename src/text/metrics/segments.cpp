#include "text/metrics/segments.h"

#include <unicode/uchar.h>

#include "attend/text/utf8.h"

namespace attend::metric {

bool is_space(char32_t code) {
  if (code < 0x80) return code == ' ' || (code >= 0x09 && code <= 0x0d) || (code >= 0x1c && code <= 0x1f);
  return u_isUWhiteSpace(static_cast<UChar32>(code));
}

std::vector<std::u32string_view> split_at_space(std::u32string_view text) {
  std::vector<std::u32string_view> words;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && !is_space(text[end])) ++end;
    if (end > at) words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

std::u32string decode(std::string_view text, bool lowercase) {
  return code_points(lowercase ? lower_case(text) : std::string(text));
}

std::string signature_head(bool lowercase, int64_t references) {
  return "nrefs:" + (references < 0 ? "var" : std::to_string(references)) + "|case:" + (lowercase ? "lc" : "mixed");
}

}  // namespace attend::metric
