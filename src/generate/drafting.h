#pragma once

#include "generate/batch.h"
#include "generate/step_cost.h"
#include "models/paged_decoding.h"

namespace attend {

/// The drafts of a running batch with pages. A step reads the newest token of a sequence and guesses of the next ones.
/// The logits after each of them have the bits of a step without guesses, so that the tokens are chosen from them as
/// usual, up to the first that differs from its guess.
class Drafting {
 public:
  Drafting(const Model& model, const EngineOptions& options);

  /// Prepares a sequence that starts, if it may have drafts: it has one row, and its attention is not recorded.
  void start(Slot& slot) const;
  /// Chooses Slot::draft for a step of the running sequences. A step that also reads a prompt gets no guesses: with the
  /// prompt's tokens, it is not limited by reading the weights.
  void guess(std::span<Slot> running, const PagedDecoding& decoding, bool reads_prompt);
  /// A step without prompts took `seconds`.
  void add_time(std::span<const RowReading> readings, double seconds);
  /// After a step: keeps the keys and values of right guesses.
  void accept(std::span<const Slot> running, PagedDecoding& decoding);

  int64_t drafted() const { return drafted_; }
  int64_t accepted() const { return accepted_; }

 private:
  const Model& model_;
  int64_t most_;  // guesses for a sequence
  StepCost cost_;
  int64_t drafted_ = 0, accepted_ = 0;
};

}  // namespace attend
