#pragma once

#include <deque>
#include <exception>
#include <memory>

#include "generate/drafter.h"
#include "generate/engine.h"

// The running batch of an engine. There are two kinds: with keys and values in pages, and with dense tensors.
namespace attend {

/// A sequence and its state.
struct Slot {
  std::unique_ptr<Sequence> sequence;  // the writer refers to it
  std::unique_ptr<Writer> writer;
  std::vector<int32_t> window;  // of a sliding sequence: the tokens that the decoder has read or reads next
  std::exception_ptr error;     // of the last step: an Error
  bool is_over = false;         // finished, cancelled by its callback, or waiting to be read again
  int64_t held = 0;             // dense: number of tokens that its rows have read
  int64_t first_row = 0;        // paged: index of its first row
  int64_t pages = 0;            // paged: number of pages that are reserved for it
  int64_t written = 0;          // number of tokens that were reported
  // Paged, with one row:
  std::unique_ptr<Drafter> drafter{};  // null: no drafts
  std::vector<int32_t> draft{};        // the newest token and the guesses that a step reads
  int64_t accepted = 0;                // guesses of the step that were right

  const std::vector<int32_t>& prompt() const { return sequence->slides ? window : sequence->prompt; }
  int64_t length() const { return std::max(std::ssize(sequence->source), std::ssize(prompt())); }
  int64_t width() const { return sequence->options.sampling ? 1 : sequence->options.beam; }
  /// Whether the sequence may go on before its first token.
  bool is_wanted() const { return written > 0 || !sequence->is_wanted || sequence->is_wanted(); }
  int64_t guesses() const { return std::max<int64_t>(std::ssize(draft) - 1, 0); }
  /// Chooses the next tokens. If that fails, keeps the error for on_error, or throws it if there is none.
  void advance(const StepRows& rows);
  /// Before its prompt is read: drops all but the last half of a context that is too long.
  void slide(int64_t context);
  /// Reports a step to the callbacks. Sets is_over.
  void report(const SequenceStep& step);
  /// The sequence as one that waits to be read again from its window.
  Slot again();
};

/// Whether a sequence fits into a batch of `rows` rows whose longest source or prompt has `longest` tokens.
bool fits(const EngineOptions& options, const Slot& slot, int64_t rows, int64_t longest);

class RunningBatch {
 public:
  virtual ~RunningBatch() = default;
  /// Throws an error that names the numbers if the sequence could never start.
  virtual void check(const Slot& /*slot*/) const {}
  /// Starts waiting sequences and generates at least one token for each running sequence. Returns false if there was
  /// nothing to do. A sequence may return to the front of `waiting`, to be read again.
  virtual bool step(std::deque<Slot>& waiting) = 0;
  /// All counters but `waiting`.
  virtual EngineCounters counters() const = 0;
};

/// Every row is copied when others join or leave. For models without attention over their own tokens, and without a
/// cache.
std::unique_ptr<RunningBatch> create_dense_batch(const Model& model, const EngineOptions& options);
/// Null if the model does not support pages.
std::unique_ptr<RunningBatch> create_paged_batch(const Model& model, const EngineOptions& options);

}  // namespace attend
