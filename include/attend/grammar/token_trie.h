#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attend/text/tokenizer.h"

namespace attend {

namespace grammar {
struct TokenStrings;
}  // namespace grammar

/// The bytes that each token of a tokenizer adds to a text, as a trie. Special tokens, and tokens whose bytes depend on
/// their neighbours, add none. Built once per tokenizer, which takes up to a second.
class TokenTrie {
 public:
  explicit TokenTrie(const Tokenizer& tokenizer);
  /// For tokens with these bytes; empty: none.
  explicit TokenTrie(std::vector<std::string> bytes);

  /// Nodes in the order of a depth-first walk.
  struct Node {
    uint32_t next = 0;   ///< index of the node after all descendants
    int32_t token = -1;  ///< the first token that ends here; −1: none
    uint8_t byte = 0;
    uint8_t depth = 0;  ///< number of bytes before this one
  };
  std::span<const Node> nodes() const { return nodes_; }
  /// The next token with the same bytes; −1: none.
  int32_t same(int32_t token) const { return same_[static_cast<size_t>(token)]; }
  /// The bytes of a token; empty if it is out of range or adds none.
  std::string_view bytes(int32_t token) const;
  int64_t size() const { return static_cast<int64_t>(bytes_.size()); }
  /// The texts that the tokens can write; null: any text.
  const std::shared_ptr<const grammar::TokenStrings>& strings() const { return strings_; }

 private:
  std::vector<std::string> bytes_;
  std::vector<int32_t> same_;
  std::vector<Node> nodes_;
  std::shared_ptr<const grammar::TokenStrings> strings_;
};

}  // namespace attend
