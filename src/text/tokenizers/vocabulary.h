#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizers/hash_table.h"

namespace attend::text {

inline constexpr int32_t kNone = -1;
/// Limit on ids, far above any real vocabulary: a larger id can only come from a damaged file.
inline constexpr int64_t kMostTokens = 4'000'000;

/// Maps tokens to ids and back. Ids need not be contiguous: an id without a token has the empty string.
class Vocabulary {
 public:
  /// Throws FormatError unless 0 ≤ id < kMostTokens. A token that exists already gets the new id.
  void add(std::string_view token, int64_t id);
  /// The id, or kNone.
  int32_t find(std::string_view token) const { return ids_.find(token); }
  /// The token; empty if the id has no token or is out of range.
  const std::string& token(int64_t id) const;
  /// The largest id + 1.
  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }

 private:
  StringTable ids_;
  std::vector<std::string> tokens_;
};

}  // namespace attend::text
