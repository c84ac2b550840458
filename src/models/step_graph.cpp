#include "models/step_graph.h"

#include "attend/base/error.h"

namespace attend {

std::vector<int64_t> checked_ids(const Tensor& ids, int64_t words) {
  std::vector<int64_t> result = ids.to_vector<int64_t>();
  for (const int64_t id : result) {
    require<ShapeError>(id >= 0 && id < words, "embedding: index ", id, " is outside 0 to ", words - 1);
  }
  return result;
}

void StepGraph::forget() {
  graph_ = {};
  logits_ = {};
}

Tensor StepGraph::run(Device device, const std::function<Tensor(const Tensor& logits)>& step) {
  const bool is_held = logits_ && logits_.storage().use_count() > 1;  // a caller keeps the last result
  const bool is_changed = precision_ != current_precision() || is_batch_invariant_ != is_batch_invariant();
  if (is_held || is_changed) forget();
  precision_ = current_precision();
  is_batch_invariant_ = is_batch_invariant();
  if (graph_) {
    graph_.launch();
    return logits_;
  }
  if (!logits_ || cannot_capture_ || !has_graphs(device)) {
    logits_ = step({});
    return logits_;
  }
  try {
    graph_ = DeviceGraph::capture(device, [&] { step(logits_); });
  } catch (const DeviceError&) {  // a part of the step needs the host
    cannot_capture_ = true;
    return step({});
  }
  graph_.launch();
  return logits_;
}

}  // namespace attend
