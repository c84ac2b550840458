#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace attend::text {

/// The content of a SentencePiece model file (the protocol buffer ModelProto) that encoding and decoding need.
struct SentencePieceProto {
  enum class Type { normal = 1, unknown, control, user_defined, unused, byte };
  struct Piece {
    std::string text;
    float score = 0;
    Type type = Type::normal;
  };
  enum class Algorithm { unigram = 1, bpe, word, character };

  std::vector<Piece> pieces;  // by id
  Algorithm algorithm = Algorithm::unigram;
  std::string charsmap;
  std::string unknown_surface = " \u2047 ";  // the text that an unknown piece decodes to
  bool add_dummy_prefix = true, remove_extra_whitespaces = true, escape_whitespaces = true;
  bool byte_fallback = false, treat_whitespace_as_suffix = false;
};

/// Throws FormatError unless the bytes are a model with exactly one unknown piece.
SentencePieceProto parse_sentencepiece(std::string_view bytes);

}  // namespace attend::text
