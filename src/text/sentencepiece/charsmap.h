#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attend::text {

/// SentencePiece's replacement table ("precompiled_charsmap"): a double-array trie that maps byte strings to offsets
/// into a block of zero-terminated strings. The blob is not trusted: every step checks its bounds.
class Charsmap {
 public:
  /// Throws FormatError if the sizes in the blob are inconsistent.
  explicit Charsmap(std::string_view blob);

  struct Match {
    size_t length = 0;    ///< bytes of the text that are replaced
    std::string_view by;  ///< the replacement
  };
  enum class Take { longest, shortest };
  /// The replacement for a prefix of `text`, if there is one. Throws FormatError if it has more than 256 bytes.
  std::optional<Match> find(std::string_view text, Take take) const;

 private:
  std::optional<std::string_view> replacement(uint32_t offset) const;

  std::vector<uint32_t> units_;
  std::string strings_;
};

/// Applies the table as Hugging Face's tokenizers do: to each grapheme of up to five bytes, otherwise to each code
/// point, taking the shortest match. (SentencePiece itself takes the longest match at each byte; see
/// SentencePieceModel::normalize.)
std::string apply_by_grapheme(const Charsmap& map, std::string_view text);

/// Decodes base64. Throws FormatError if the text is not base64.
std::string from_base64(std::string_view text);

}  // namespace attend::text
