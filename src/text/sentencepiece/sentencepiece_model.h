#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/sentencepiece/charsmap.h"
#include "text/sentencepiece/sentencepiece_proto.h"
#include "text/tokenizers/trie.h"
#include "text/tokenizers/unigram.h"
#include "text/tokenizers/vocabulary.h"

namespace attend::text {

/// A SentencePiece model. Encodes and decodes as the reference library does.
class SentencePieceModel {
 public:
  /// Throws FormatError unless `bytes` is a SentencePiece model.
  explicit SentencePieceModel(std::string_view bytes);

  /// Calls visit(piece as spelt, id) for each piece of `text`, which must be valid UTF-8. Characters that are not in
  /// the model become byte pieces if the model has them. Otherwise adjacent unknown characters become one unknown
  /// piece, spelt as in the text.
  using Visit = std::function<void(std::string_view, int32_t)>;
  void encode(std::string_view text, const Visit& visit) const;

  /// The text of pieces as spelt. Adjacent byte pieces (<0x0A>) are joined to characters; each byte that is not part of
  /// valid UTF-8 becomes U+FFFD.
  std::string decode(std::span<const std::string> pieces) const;

  const SentencePieceProto& proto() const { return proto_; }
  const Vocabulary& vocabulary() const { return vocabulary_; }
  int32_t unknown() const { return unknown_; }
  SentencePieceProto::Type type(int32_t id) const { return proto_.pieces[static_cast<size_t>(id)].type; }
  /// `text` in the form that pieces match: after the model's replacement table, with ▁ for spaces.
  std::string normalize(std::string_view text) const;

 private:
  struct Prefix {
    size_t length = 0;
    std::string text;
  };
  Prefix normalized_prefix(std::string_view text) const;
  void emit(std::string_view piece, int32_t id, const Visit& visit) const;
  void encode_characters(std::string_view text, const Visit& visit) const;
  void encode_words(std::string_view text, const Visit& visit) const;

  SentencePieceProto proto_;
  Vocabulary vocabulary_;    // all pieces
  StringTable segmentable_;  // pieces that text may be encoded as: normal, user-defined, unused
  Trie user_defined_;
  UnigramLattice<float> lattice_;
  std::optional<Charsmap> charsmap_;
  std::vector<int32_t> byte_ids_;
  int32_t unknown_ = kNone;
  friend class SentencePieceBpe;
};

}  // namespace attend::text
