#pragma once

#include <string_view>
#include <vector>

#include "text/tokenizers/hash_table.h"

namespace attend::text {

/// A set of strings with values; finds the strings that are prefixes of a text.
class Trie {
 public:
  /// `value` must not be negative. Adding a string again replaces its value.
  void add(std::string_view key, int32_t value) {
    uint32_t node = 0;
    for (const char byte : key) node = child_or_new(node, static_cast<unsigned char>(byte));
    values_[node] = value;
  }
  bool empty() const { return values_.size() == 1; }

  /// Calls visit(length, value) for every non-empty string that is a prefix of `text`, shorter ones first.
  template <class Visit>
  void for_each_prefix(std::string_view text, Visit&& visit) const {
    uint32_t node = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      const uint64_t next = children_.find(node, static_cast<unsigned char>(text[i]));
      if (next == PairTable::kAbsent) return;
      node = static_cast<uint32_t>(next);
      if (values_[node] >= 0) visit(i + 1, values_[node]);
    }
  }

  struct Match {
    size_t length = 0;  ///< 0: no match
    int32_t value = -1;
  };
  Match longest_prefix(std::string_view text) const {
    Match best;
    for_each_prefix(text, [&](size_t length, int32_t value) { best = {length, value}; });
    return best;
  }

 private:
  uint32_t child_or_new(uint32_t node, uint32_t byte) {
    const uint64_t found = children_.find(node, byte);
    if (found != PairTable::kAbsent) return static_cast<uint32_t>(found);
    children_.set(node, byte, values_.size());
    values_.push_back(-1);
    return static_cast<uint32_t>(values_.size() - 1);
  }

  PairTable children_;
  std::vector<int32_t> values_{-1};
};

}  // namespace attend::text
