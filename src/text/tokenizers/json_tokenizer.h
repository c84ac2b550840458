#pragma once

#include <memory>
#include <string>

#include "attend/text/tokenizer.h"
#include "text/tokenizers/added_tokens.h"
#include "text/tokenizers/decoder.h"
#include "text/tokenizers/normalizer.h"
#include "text/tokenizers/pre_tokenizer.h"
#include "text/tokenizers/special_tokens.h"
#include "text/tokenizers/subword_model.h"
#include "text/tokenizers/text_template.h"

namespace attend::text {

/// A tokenizer from Hugging Face's tokenizer.json: normalizer → pre-tokenizer → model → post-processor; a decoder
/// converts ids back to text.
class JsonTokenizer final : public Tokenizer {
 public:
  /// `source` is the text of the file, which save() writes unchanged. Throws FormatError.
  JsonTokenizer(std::string source, const TokenizerConfig& files);

  std::vector<int32_t> encode(std::string_view text, bool add_special) const override;
  EncodedPair encode_pair(std::string_view a, std::string_view b, int64_t longest) const override;
  std::string decode(std::span<const int32_t> ids, bool keep_special) const override;
  int64_t size() const override { return tokens_.size(); }
  std::string token(int32_t id) const override;
  std::optional<int32_t> find(std::string_view token) const override;
  const SpecialTokens& special() const override { return special_; }
  void save(const std::string& folder) const override;

 private:
  void encode_part(Piece part, TextWork& work, std::vector<int32_t>& ids) const;

  std::string source_, config_source_;
  Normalizer normalizer_;
  std::unique_ptr<const PreTokenizer> pre_tokenizer_;
  std::unique_ptr<const SubwordModel> model_;
  AddedTokens added_;
  TextTemplate template_;
  PairTemplate pair_template_;
  Decoder decoder_;
  Vocabulary tokens_;  // the model's tokens and the added ones
  SpecialTokens special_;
};

}  // namespace attend::text
