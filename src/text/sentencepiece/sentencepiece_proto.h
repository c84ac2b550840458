#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace attend::text {

/// What a SentencePiece model file (the protocol buffer ModelProto) says, as far as encoding and decoding need it.
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
  std::string unknown_surface = " \u2047 ";  // how an unknown piece is decoded
  bool add_dummy_prefix = true, remove_extra_whitespaces = true, escape_whitespaces = true;
  bool byte_fallback = false, treat_whitespace_as_suffix = false;
};

/// Throws FormatError unless the bytes are a model, with exactly one piece for the unknown.
SentencePieceProto parse_sentencepiece(std::string_view bytes);

}  // namespace attend::text
