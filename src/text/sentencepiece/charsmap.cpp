#include "text/sentencepiece/charsmap.h"

#include <cstring>

#include "attend/base/error.h"
#include "attend/text/segment.h"
#include "text/unicode.h"

namespace attend::text {
namespace {

constexpr size_t kLongestReplacement = 256;  // the longest of NFKC has 33 bytes

// A unit of the double array, in the layout of Yata's darts-clone.
bool has_leaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t value_of(uint32_t unit) { return unit & 0x7fffffffu; }
uint32_t label_of(uint32_t unit) { return unit & 0x800000ffu; }
uint32_t offset_of(uint32_t unit) { return (unit >> 10) << ((unit & 0x200u) >> 6); }

}  // namespace

Charsmap::Charsmap(std::string_view blob) {
  uint32_t trie_bytes = 0;
  require<FormatError>(blob.size() >= sizeof trie_bytes, "charsmap: expected at least 4 bytes, got ", blob.size());
  std::memcpy(&trie_bytes, blob.data(), sizeof trie_bytes);
  blob.remove_prefix(sizeof trie_bytes);
  require<FormatError>(trie_bytes <= blob.size() && trie_bytes % sizeof(uint32_t) == 0, "charsmap: a trie of ",
                       trie_bytes, " bytes does not fit into ", blob.size());
  units_.resize(trie_bytes / sizeof(uint32_t));
  if (trie_bytes > 0) std::memcpy(units_.data(), blob.data(), trie_bytes);
  strings_ = blob.substr(trie_bytes);
}

std::optional<std::string_view> Charsmap::replacement(uint32_t offset) const {
  if (offset >= strings_.size()) return std::nullopt;
  const std::string_view rest = std::string_view(strings_).substr(offset, kLongestReplacement + 1);
  const size_t end = rest.find('\0');
  require<FormatError>(end != std::string_view::npos || rest.size() <= kLongestReplacement,
                       "charsmap: a replacement has more than ", kLongestReplacement, " bytes");
  return rest.substr(0, end);
}

std::optional<Charsmap::Match> Charsmap::find(std::string_view text, Take take) const {
  if (units_.empty()) return std::nullopt;
  std::optional<Match> best;
  size_t node = offset_of(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    node ^= byte;
    if (node >= units_.size() || label_of(units_[node]) != byte) break;
    const bool leaf = has_leaf(units_[node]);
    node ^= offset_of(units_[node]);
    if (!leaf) continue;
    if (node >= units_.size()) break;
    if (const auto by = replacement(value_of(units_[node]))) best = Match{i + 1, *by};
    if (best && take == Take::shortest) break;
  }
  return best;
}

std::string apply_by_grapheme(const Charsmap& map, std::string_view text) {
  constexpr size_t kLongestWhole = 5;
  std::string out;
  for (const std::string& grapheme : graphemes(text)) {
    const auto whole = grapheme.size() <= kLongestWhole ? map.find(grapheme, Charsmap::Take::shortest) : std::nullopt;
    if (whole) {
      out += whole->by;
      continue;
    }
    for_each_code_point(grapheme, [&](char32_t, std::string_view bytes) {
      const auto part = map.find(bytes, Charsmap::Take::shortest);
      out += part ? part->by : bytes;
    });
  }
  return out;
}

std::string from_base64(std::string_view text) {
  std::string out;
  uint32_t bits = 0;
  int count = 0;
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  for (const char c : text) {
    const int value = c >= 'A' && c <= 'Z'   ? c - 'A'
                      : c >= 'a' && c <= 'z' ? c - 'a' + 26
                      : c >= '0' && c <= '9' ? c - '0' + 52
                      : c == '+'             ? 62
                      : c == '/'             ? 63
                                             : -1;
    require<FormatError>(value >= 0, "charsmap: expected base64, got the byte ", int{static_cast<unsigned char>(c)});
    bits = bits << 6 | static_cast<uint32_t>(value);
    if ((count += 6) < 8) continue;
    count -= 8;
    out += static_cast<char>(bits >> count & 0xff);
  }
  return out;
}

}  // namespace attend::text
