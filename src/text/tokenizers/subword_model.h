#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "text/tokenizers/json_fields.h"
#include "text/tokenizers/vocabulary.h"

namespace attend::text {

/// Encodes pieces of text as ids of a vocabulary.
class SubwordModel {
 public:
  virtual ~SubwordModel() = default;
  /// Appends the ids of a piece. The piece is not empty and is valid UTF-8; with raw bytes it may be any bytes.
  virtual void encode(std::string_view piece, std::vector<int32_t>& ids) const = 0;

  const Vocabulary& vocabulary() const { return vocabulary_; }
  int32_t unknown() const { return unknown_; }

 protected:
  Vocabulary vocabulary_;
  int32_t unknown_ = kNone;
};

/// Reads the "model" of tokenizer.json: BPE, WordPiece, WordLevel or Unigram. With `raw_bytes` (BPE only), pieces are
/// raw bytes although the vocabulary spells them as characters. Throws FormatError for any other model.
std::unique_ptr<const SubwordModel> make_model(const Json& json, bool raw_bytes);
/// The "type" of a model. Older files have none; it is then inferred from the model's other keys.
std::string model_type(const Json& json);

/// Reads the "vocab" object of a model.
Vocabulary read_vocabulary(const Json& json);

/// The ids of <0x00> … <0xFF>; kNone for a byte that is not in the vocabulary.
std::vector<int32_t> byte_fallback_ids(const Vocabulary& vocabulary);
/// The byte that a token such as <0x0A> represents, or -1.
int byte_of_token(std::string_view token);

}  // namespace attend::text
