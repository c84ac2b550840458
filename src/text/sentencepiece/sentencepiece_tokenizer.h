#pragma once

#include <string>

#include "attend/text/tokenizer.h"
#include "text/sentencepiece/sentencepiece_model.h"
#include "text/tokenizers/added_tokens.h"
#include "text/tokenizers/special_tokens.h"
#include "text/tokenizers/text_template.h"

namespace attend::text {

/// A tokenizer from tokenizer.model or spiece.model with the additions of tokenizer_config.json: further tokens, T5's
/// <extra_id_0> …, and which of <s> and </s> go around a text.
class SentencePieceTokenizer final : public Tokenizer {
 public:
  /// `source` holds the bytes of the model file, which save() writes unchanged. Throws FormatError.
  SentencePieceTokenizer(std::string source, const TokenizerConfig& files);

  std::vector<int32_t> encode(std::string_view text, bool add_special) const override;
  std::string decode(std::span<const int32_t> ids, bool keep_special) const override;
  int64_t size() const override { return tokens_.size(); }
  std::string token(int32_t id) const override;
  std::optional<int32_t> find(std::string_view token) const override;
  const SpecialTokens& special() const override { return special_; }
  void save(const std::string& folder) const override;
  /// The same tokenizer as a tokenizer.json with <s> … </s> around a text, or nullopt if tokenizer.json cannot
  /// represent the model. The two differ only on a text that spells the name of a special token and consists of
  /// characters that are not in the vocabulary.
  std::optional<Json> document() const;

 private:
  void add_token(AddedToken token);
  void add_tokens(const TokenizerConfig& files);
  TextTemplate template_from(const TokenizerConfig& files) const;

  std::string source_;
  Json config_;  // save() writes it beside the model
  SentencePieceModel model_;
  Vocabulary tokens_;  // the model's pieces and the added tokens
  bool lowercase_ = false;
  TokenFinder finder_;
  std::unordered_set<int32_t> added_special_;
  TextTemplate template_;
  SpecialTokens special_;
};

}  // namespace attend::text
