#pragma once

#include <string>

#include "text/tokenizers/subword_model.h"

namespace attend::text {

/// BERT's: the longest token a word begins with, then the longest with the prefix `##`, and so on; a word that cannot
/// be finished is unknown as a whole.
class WordPiece final : public SubwordModel {
 public:
  explicit WordPiece(const Json& json);
  void encode(std::string_view piece, std::vector<int32_t>& ids) const override;

 private:
  std::string prefix_;
  int64_t longest_word_ = 100;  // in characters; longer ones are unknown
  size_t longest_token_ = 0;    // in bytes
};

/// Whole pieces only. A piece that is not in the vocabulary is unknown; FormatError where the vocabulary has no token
/// for that.
class WordLevel final : public SubwordModel {
 public:
  explicit WordLevel(const Json& json);
  void encode(std::string_view piece, std::vector<int32_t>& ids) const override;
};

}  // namespace attend::text
