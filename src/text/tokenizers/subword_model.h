#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "text/tokenizers/json_fields.h"
#include "text/tokenizers/vocabulary.h"

namespace attend::text {

/// Turns pieces of text into the ids of a vocabulary.
class SubwordModel {
 public:
  virtual ~SubwordModel() = default;
  /// Appends the ids of a piece, which is not empty and UTF-8 (any bytes for a model of raw bytes).
  virtual void encode(std::string_view piece, std::vector<int32_t>& ids) const = 0;

  const Vocabulary& vocabulary() const { return vocabulary_; }
  int32_t unknown() const { return unknown_; }

 protected:
  Vocabulary vocabulary_;
  int32_t unknown_ = kNone;
};

/// The "model" of tokenizer.json: BPE, WordPiece, WordLevel or Unigram. With `raw_bytes`, pieces come as bytes,
/// although the vocabulary spells them (only BPE can). Throws FormatError for anything else.
std::unique_ptr<const SubwordModel> make_model(const Json& json, bool raw_bytes);
/// "type", or what older files, which have none, must be.
std::string model_type(const Json& json);

/// The "vocab" object of a model.
Vocabulary read_vocabulary(const Json& json);

/// The ids of <0x00> … <0xFF>; kNone for those that are not in the vocabulary.
std::vector<int32_t> byte_fallback_ids(const Vocabulary& vocabulary);
/// The byte a token like <0x0A> stands for, or -1.
int byte_of_token(std::string_view token);

}  // namespace attend::text
