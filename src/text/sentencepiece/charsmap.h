#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attend::text {

/// SentencePiece's table of replacements ("precompiled_charsmap"): a double-array trie from bytes to an offset into a
/// block of zero-terminated strings. The blob is not trusted: every step is checked against its bounds.
class Charsmap {
 public:
  /// Throws FormatError if the sizes do not fit together.
  explicit Charsmap(std::string_view blob);

  struct Match {
    size_t length = 0;  ///< bytes of the text that are replaced
    std::string_view by;
  };
  enum class Take { longest, shortest };
  /// The replacement for what `text` begins with, if there is one. Throws FormatError if it has more than 256 bytes.
  std::optional<Match> find(std::string_view text, Take take) const;

 private:
  std::optional<std::string_view> replacement(uint32_t offset) const;

  std::vector<uint32_t> units_;
  std::string strings_;
};

/// As Hugging Face's tokenizers apply it: to each grapheme of up to five bytes, else to each code point, and by the
/// shortest match. (SentencePiece itself takes the longest match at each byte; see SentencePieceNormalizer.)
std::string apply_by_grapheme(const Charsmap& map, std::string_view text);

/// Throws FormatError if it is not base64.
std::string from_base64(std::string_view text);

}  // namespace attend::text
