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

/// A token that is found in the text before the model sees it.
struct AddedToken {
  std::string content;
  int32_t id = kNone;
  bool single_word = false;  ///< matches only if no letter or digit is adjacent
  bool lstrip = false;       ///< includes the whitespace before it
  bool rstrip = false;       ///< includes the whitespace after it
  bool normalized = false;   ///< searched in the normalised text instead of the original text
  bool special = false;      ///< omitted by decode
};

/// Splits a text at the added tokens. Leftmost match first; of several at one position, the longest.
class TokenFinder {
 public:
  void add(const AddedToken& token, std::string_view content);

  struct Part {
    std::string_view text;
    int32_t id = kNone;  ///< kNone: text for the model
  };
  /// Calls visit for each non-empty part, in order.
  void split(std::string_view text, const std::function<void(Part)>& visit) const;

 private:
  std::vector<AddedToken> tokens_;
  Trie trie_;  // values are indices of tokens_
  std::array<bool, 256> first_bytes_{};
};

class AddedTokens {
 public:
  AddedTokens() = default;
  /// Reads "added_tokens" of tokenizer.json. Tokens that are in `vocabulary` keep their ids. If `finds_special` is
  /// false, the name of a special token in a text is ordinary text.
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
