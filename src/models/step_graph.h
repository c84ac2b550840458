#pragma once

#include <functional>
#include <vector>

#include "attend/ops/precision.h"
#include "attend/tensor/tensor.h"
#include "backend/graph.h"

namespace attend {

/// The ids of a step on the host. Throws ShapeError unless all are in [0, words).
std::vector<int64_t> checked_ids(const Tensor& ids, int64_t words);

/// Runs the same step of a generation again and again: the first time kernel by kernel, then as a captured graph. A
/// step that cannot be captured runs kernel by kernel every time.
class StepGraph {
 public:
  /// The next step has other shapes or addresses: what was captured is no longer valid.
  void forget();
  /// Runs step(logits), which writes its result into `logits` [rows, words] if that is given, or returns a new tensor.
  /// The next run reuses the memory of a result that nobody holds.
  Tensor run(Device device, const std::function<Tensor(const Tensor& logits)>& step);

 private:
  DeviceGraph graph_;
  Tensor logits_;  // of the last run
  Precision precision_ = Precision::f32;
  bool is_batch_invariant_ = false, cannot_capture_ = false;
};

}  // namespace attend
