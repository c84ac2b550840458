#include "models/step_graph.h"

#include "attend/base/error.h"

namespace attend {

void StepGraph::forget() {
  graph_ = {};
  logits_ = {};
}

Tensor StepGraph::run(Device device, const std::function<Tensor(const Tensor& logits)>& step) {
  if (precision_ != current_precision()) forget();
  precision_ = current_precision();
  if (graph_) {
    graph_.launch();
    return logits_;
  }
  if (!logits_ || cannot_capture_ || is_batch_invariant() || !has_graphs(device)) {
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
