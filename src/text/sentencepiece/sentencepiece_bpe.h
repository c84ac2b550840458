#pragma once

#include <string_view>

#include "text/sentencepiece/sentencepiece_model.h"

namespace attend::text {

/// SentencePiece's BPE, which has no list of merges: two neighbours may be joined when the result is a piece, the one
/// with the highest score first, the leftmost of equals.
class SentencePieceBpe {
 public:
  explicit SentencePieceBpe(const SentencePieceModel& model) : model_(model) {}
  /// Calls visit(piece, id) over text that is normalised; kNone for unknown characters.
  void encode(std::string_view text, const SentencePieceModel::Visit& visit) const;

 private:
  const SentencePieceModel& model_;
};

}  // namespace attend::text
