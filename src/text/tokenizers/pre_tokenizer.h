#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "text/tokenizers/json_fields.h"
#include "text/tokenizers/text_work.h"

namespace attend::text {

/// A part of the text on its way to the model.
struct Piece {
  std::string_view text;
  bool at_start = false;  ///< whether it is at the start of the user's text
};
using PieceSink = std::function<void(Piece)>;

/// Splits text into pieces, which the model encodes one by one. A piece is valid only during the call that passes it.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  /// Throws FormatError if the text exceeds the limits of TextWork.
  virtual void split(Piece piece, TextWork& work, const PieceSink& sink) const = 0;
};

/// Whether the last step spells bytes as GPT-2 does (ByteLevel).
bool ends_in_byte_level(const Json& json);

/// Reads the "pre_tokenizer" of tokenizer.json; null gives a null pointer. With `raw_bytes`, the last ByteLevel leaves
/// bytes unchanged, for a model that reads raw bytes. Throws FormatError, which names the component, if one is unknown.
std::unique_ptr<const PreTokenizer> make_pre_tokenizer(const Json& json, bool raw_bytes);

}  // namespace attend::text
