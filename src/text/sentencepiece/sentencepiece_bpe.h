#pragma once

#include <string_view>

#include "text/sentencepiece/sentencepiece_model.h"

namespace attend::text {

/// SentencePiece's BPE, which has no list of merges. Two adjacent symbols may be joined if the result is a piece. The
/// join with the highest score comes first, the leftmost one if scores are equal.
class SentencePieceBpe {
 public:
  explicit SentencePieceBpe(const SentencePieceModel& model) : model_(model) {}
  /// Calls visit(piece, id) for each piece of normalised text. id is kNone for unknown characters.
  void encode(std::string_view text, const SentencePieceModel::Visit& visit) const;

 private:
  const SentencePieceModel& model_;
};

}  // namespace attend::text
