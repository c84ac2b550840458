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

/// A SentencePiece model: encodes and decodes as the reference library does.
class SentencePieceModel {
 public:
  /// Throws FormatError unless `bytes` is a model.
  explicit SentencePieceModel(std::string_view bytes);

  /// Calls visit(piece as spelt, id) for each piece of valid UTF-8. Characters the model does not know become bytes,
  /// where it has those, or one unknown piece for all that are adjacent, spelt as they are.
  using Visit = std::function<void(std::string_view, int32_t)>;
  void encode(std::string_view text, const Visit& visit) const;

  /// The text of pieces as spelt. Those that are bytes (<0x0A>) are put together, U+FFFD for each that fits nowhere.
  std::string decode(std::span<const std::string> pieces) const;

  const SentencePieceProto& proto() const { return proto_; }
  const Vocabulary& vocabulary() const { return vocabulary_; }
  int32_t unknown() const { return unknown_; }
  SentencePieceProto::Type type(int32_t id) const { return proto_.pieces[static_cast<size_t>(id)].type; }
  /// `text` as the pieces see it: by the model's table of replacements, with ▁ for blanks.
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
  void encode_merging(std::string_view text, const Visit& visit) const;

  SentencePieceProto proto_;
  Vocabulary vocabulary_;    // all pieces
  StringTable segmentable_;  // those that text may become: normal, user-defined, unused
  Trie user_defined_;
  UnigramLattice<float> lattice_;
  std::optional<Charsmap> charsmap_;
  std::vector<int32_t> byte_ids_;
  int32_t unknown_ = kNone;
  bool pieces_span_words_ = false;  // whether a blank stands inside or behind a piece
  friend class SentencePieceBpe;
};

}  // namespace attend::text
