#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "text/tokenizers/json_fields.h"
#include "text/tokenizers/text_work.h"

namespace attend::text {

/// A stretch of text on its way to the model.
struct Piece {
  std::string_view text;
  bool at_start = false;  ///< whether it stands where the user's text began
};
using PieceSink = std::function<void(Piece)>;

/// Cuts text into the pieces that a model sees one by one. A piece lives only as long as the call that hands it over.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  /// Throws FormatError where the text costs more than it may.
  virtual void split(Piece piece, TextWork& work, const PieceSink& sink) const = 0;
};

/// Whether the last step spells bytes as GPT-2 does.
bool ends_in_byte_level(const Json& json);

/// The "pre_tokenizer" of tokenizer.json; null gives a null pointer. With `raw_bytes`, the last ByteLevel leaves bytes
/// as they are, for a model that knows them so. Throws FormatError naming a component that is not known.
std::unique_ptr<const PreTokenizer> make_pre_tokenizer(const Json& json, bool raw_bytes);

}  // namespace attend::text
