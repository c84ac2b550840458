#pragma once

#include <string>

#include "attend/text/tokenizer.h"
#include "text/sentencepiece/sentencepiece_model.h"
#include "text/tokenizers/added_tokens.h"
#include "text/tokenizers/special_tokens.h"

namespace attend::text {

/// The contents of a Marian model's tokenizer files.
struct MarianFiles {
  std::string source;      ///< source.spm, which splits the source text into pieces
  std::string target;      ///< target.spm, which joins the pieces of a translation
  std::string vocabulary;  ///< vocab.json, which maps the pieces of both languages to ids
};

/// Encodes the source language and decodes the target language with a shared vocabulary. A text may begin with a
/// language code (>>zho<<), which is a single token.
class MarianTokenizer final : public Tokenizer {
 public:
  /// Throws FormatError.
  MarianTokenizer(MarianFiles files, const TokenizerConfig& config);

  std::vector<int32_t> encode(std::string_view text, bool add_special) const override;
  std::vector<int32_t> encode_target(std::string_view text) const override;
  std::string decode(std::span<const int32_t> ids, bool keep_special) const override;
  int64_t size() const override { return tokens_.size(); }
  std::string token(int32_t id) const override;
  std::optional<int32_t> find(std::string_view token) const override;
  const SpecialTokens& special() const override { return special_; }
  void save(const std::string& folder) const override;

 private:
  std::vector<int32_t> encode_with(const SentencePieceModel& model, std::string_view text) const;
  bool is_special(int32_t id) const { return id == special_.pad || id == special_.unknown || id == special_.end; }

  MarianFiles files_;
  Json config_;
  SentencePieceModel source_, target_;
  Vocabulary tokens_;
  TokenFinder finder_;
  SpecialTokens special_;
};

}  // namespace attend::text
