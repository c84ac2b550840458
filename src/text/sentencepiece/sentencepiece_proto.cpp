#include "text/sentencepiece/sentencepiece_proto.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "attend/base/error.h"
#include "io/printable.h"
#include "text/tokenizers/vocabulary.h"

namespace attend::text {
namespace {

/// One field of a protocol buffer message: its number, and its value as a number or as bytes.
struct Field {
  uint64_t number = 0, integer = 0;
  std::string_view bytes;
};

/// Reads the fields of a message one after the other, never past its end.
class Message {
 public:
  explicit Message(std::string_view bytes) : rest_(bytes) {}

  bool next(Field& field) {
    if (rest_.empty()) return false;
    const uint64_t key = varint();
    field = {key >> 3, 0, {}};
    switch (key & 7) {
      case 0:
        field.integer = varint();
        return true;
      case 1:
        field.integer = fixed(8);
        return true;
      case 2:
        field.bytes = take(varint());
        return true;
      case 5:
        field.integer = fixed(4);
        return true;
      default:
        throw FormatError("not a SentencePiece model: unknown wire type " + std::to_string(key & 7));
    }
  }

 private:
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    throw FormatError("not a SentencePiece model: a number has more than 64 bits");
  }
  uint64_t fixed(size_t size) {
    uint64_t value = 0;
    std::memcpy(&value, take(size).data(), size);
    return value;
  }
  std::string_view take(uint64_t size) {
    require<FormatError>(size <= rest_.size(), "not a SentencePiece model: expected ", size, " more bytes, got ",
                         rest_.size());
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }

  std::string_view rest_;
};

SentencePieceProto::Piece read_piece(std::string_view bytes) {
  SentencePieceProto::Piece piece;
  Message message(bytes);
  for (Field field; message.next(field);) {
    if (field.number == 1) piece.text = field.bytes;
    if (field.number == 2) piece.score = std::bit_cast<float>(static_cast<uint32_t>(field.integer));
    if (field.number == 3) {
      require<FormatError>(field.integer >= 1 && field.integer <= 6, "unknown piece type ", field.integer);
      piece.type = static_cast<SentencePieceProto::Type>(field.integer);
    }
  }
  require<FormatError>(!piece.text.empty() && valid_utf8_prefix(piece.text) == piece.text.size(), "the piece ",
                       in_quotes(piece.text), " is empty or not UTF-8");
  require<FormatError>(std::isfinite(piece.score), "the score of ", in_quotes(piece.text), " is not finite");
  return piece;
}

void read_trainer(std::string_view bytes, SentencePieceProto& proto) {
  Message message(bytes);
  for (Field field; message.next(field);) {
    if (field.number == 3) {
      require<FormatError>(field.integer >= 1 && field.integer <= 4, "unknown SentencePiece algorithm ", field.integer);
      proto.algorithm = static_cast<SentencePieceProto::Algorithm>(field.integer);
    }
    if (field.number == 24) proto.treat_whitespace_as_suffix = field.integer != 0;
    if (field.number == 35) proto.byte_fallback = field.integer != 0;
    if (field.number == 44) proto.unknown_surface = field.bytes;
  }
}

void read_normalizer(std::string_view bytes, SentencePieceProto& proto) {
  Message message(bytes);
  for (Field field; message.next(field);) {
    if (field.number == 2) proto.charsmap = field.bytes;
    if (field.number == 3) proto.add_dummy_prefix = field.integer != 0;
    if (field.number == 4) proto.remove_extra_whitespaces = field.integer != 0;
    if (field.number == 5) proto.escape_whitespaces = field.integer != 0;
  }
}

}  // namespace

SentencePieceProto parse_sentencepiece(std::string_view bytes) {
  SentencePieceProto proto;
  Message message(bytes);
  for (Field field; message.next(field);) {
    if (field.number == 1) proto.pieces.push_back(read_piece(field.bytes));
    if (field.number == 2) read_trainer(field.bytes, proto);
    if (field.number == 3) read_normalizer(field.bytes, proto);
    require<FormatError>(static_cast<int64_t>(proto.pieces.size()) < kMostTokens, "more than ", kMostTokens, " pieces");
  }
  const auto unknowns = std::ranges::count(proto.pieces, SentencePieceProto::Type::unknown,
                                           [](const SentencePieceProto::Piece& piece) { return piece.type; });
  require<FormatError>(unknowns == 1, "expected a SentencePiece model with one unknown piece, got ", unknowns);
  return proto;
}

}  // namespace attend::text
