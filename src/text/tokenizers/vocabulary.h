#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizers/hash_table.h"

namespace attend::text {

inline constexpr int32_t kNone = -1;
/// Far beyond any real vocabulary; a larger id can only be damage.
inline constexpr int64_t kMostTokens = 4'000'000;

/// Tokens and their ids, both ways. Ids need not be dense: an id without a token has the empty string.
class Vocabulary {
 public:
  /// Throws FormatError for an id out of reason. A token that is there already gets the new id.
  void add(std::string_view token, int64_t id);
  /// The id, or kNone.
  int32_t find(std::string_view token) const { return ids_.find(token); }
  /// Empty for ids without a token, and for those out of range.
  const std::string& token(int64_t id) const;
  /// The largest id + 1.
  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }

 private:
  StringTable ids_;
  std::vector<std::string> tokens_;
};

}  // namespace attend::text
