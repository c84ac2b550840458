#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "text/tokenizers/json_fields.h"
#include "text/tokenizers/normalizer.h"
#include "text/tokenizers/trie.h"
#include "text/tokenizers/vocabulary.h"

namespace attend::text {

/// A token that is found in the text itself, before any model sees it.
struct AddedToken {
  std::string content;
  int32_t id = kNone;
  bool single_word = false;  ///< only where no letter or digit touches it
  bool lstrip = false;       ///< swallows the blanks before it
  bool rstrip = false;       ///< swallows the blanks behind it
  bool normalized = false;   ///< looked for in the normalised text, else in the text as it came
  bool special = false;      ///< left out by decode
};

/// Cuts a text at the added tokens: the leftmost first, the longest of those that start there.
class TokenFinder {
 public:
  void add(const AddedToken& token, std::string_view content);

  struct Part {
    std::string_view text;
    int32_t id = kNone;  ///< kNone: text for the model
  };
  /// Calls visit for each part that is not empty, in order.
  void split(std::string_view text, const std::function<void(Part)>& visit) const;

 private:
  std::vector<AddedToken> tokens_;
  Trie trie_;  // values are indices of tokens_
  std::array<bool, 256> first_bytes_{};
};

class AddedTokens {
 public:
  AddedTokens() = default;
  /// "added_tokens" of tokenizer.json. Tokens that `vocabulary` has keep its ids. Without `finds_special` a text that
  /// happens to contain the name of a special token means just these characters.
  AddedTokens(const Json& json, const Vocabulary& vocabulary, const Normalizer& normalizer, bool finds_special);

  const TokenFinder& in_text() const { return in_text_; }
  const TokenFinder& in_normalized() const { return in_normalized_; }
  const std::vector<AddedToken>& all() const { return all_; }
  bool is_special(int32_t id) const { return special_.contains(id); }

 private:
  std::vector<AddedToken> all_;
  std::unordered_set<int32_t> special_;
  TokenFinder in_text_, in_normalized_;
};

}  // namespace attend::text
