#pragma once

#include "generate/batch.h"

namespace attend {

/// The logits of a step, or only the best of each row, and the terms of their log-softmax, on the host.
class StepLogits {
 public:
  /// Takes over the logits [rows, vocab_size] of a step, on any device, for these sequences. A GPU sends only the best
  /// logits if they suffice for all of them, unless `use_best` is false.
  void set(const Tensor& values, std::span<const Slot* const> slots, bool use_best);
  /// True if only the best logits are there.
  bool is_short() const { return best_count_ > 0; }
  /// Rows [first, first + count).
  StepRows rows(int64_t first, int64_t count) const;
  /// Row `row`, `count` times.
  StepLogits repeated(int64_t row, int64_t count) const;

 private:
  Tensor logits_, terms_;   // f32; terms is [rows, 2 or more]
  int64_t best_count_ = 0;  // StepRows
};

}  // namespace attend
