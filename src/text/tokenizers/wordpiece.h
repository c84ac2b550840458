#pragma once

#include <string>

#include "text/tokenizers/subword_model.h"

namespace attend::text {

/// BERT's WordPiece: takes the longest token that is a prefix of the word, then the longest token with the prefix `##`,
/// and so on. If the rest of a word matches no token, the whole word is unknown.
class WordPiece final : public SubwordModel {
 public:
  explicit WordPiece(const Json& json);
  void encode(std::string_view piece, std::vector<int32_t>& ids) const override;

 private:
  std::string prefix_;
  int64_t longest_word_ = 100;  // in characters; longer words are unknown
  size_t longest_token_ = 0;    // in bytes
};

/// Encodes whole pieces only. A piece that is not in the vocabulary becomes the unknown token. Throws FormatError if
/// the vocabulary has none.
class WordLevel final : public SubwordModel {
 public:
  explicit WordLevel(const Json& json);
  void encode(std::string_view piece, std::vector<int32_t>& ids) const override;
};

}  // namespace attend::text
