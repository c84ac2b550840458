#include "inspect/logits.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "attend/autograd/autograd.h"
#include "attend/base/error.h"
#include "attend/models/transformer_model.h"
#include "attend/ops/arithmetic.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"
#include "inspect/structure.h"
#include "io/base64.h"

namespace attend {
namespace {

constexpr size_t kNamed = 24;

/// The input of the output layer: [places, dim].
Tensor head_input(const Model& model, const Run& run) {
  const StackPlace last = stacks_of(model).back();
  const std::string name = last.layers == 0 || run.output.is_masked ? ":readout" : last.name + ":final";
  for (const auto& [known, value] : run.values) {
    if (known != name) continue;
    const auto* pair = dynamic_cast<const TransformerModel*>(&model);
    if (pair == nullptr || !pair->settings.scale_output) return value;
    return value * (1 / std::sqrt(static_cast<double>(pair->settings.dim)));
  }
  throw ShapeError("logits: the run has no activation " + name);
}

/// The logits of a classifier, in the order of its labels: [1, labels].
Tensor label_logits(const Model& model, const Run& run) {
  std::vector<float> logits;
  for (const std::string& name : labels_of(model)) {
    const auto found = std::ranges::find(run.output.labels, name, &ShownLabel::name);
    logits.push_back(static_cast<float>(found->logit));
  }
  return tensor<float>(logits, {1, std::ssize(logits)});
}

}  // namespace

Tensor run_logits(const Model& model, const Run& run) {
  require<ShapeError>(run.output.kind != RunOutput::Kind::none, "logits: the model has no output layer");
  if (run.output.kind == RunOutput::Kind::labels) return label_logits(model, run);
  const NoGrad scope;
  return head_of(model).logits(head_input(model, run));
}

Json logits_json(const InspectedModel& model, const Run& run, int64_t place) {
  require<ShapeError>(run.output.kind == RunOutput::Kind::tokens, "logits: the model does not predict words");
  const NoGrad scope;
  const Tensor hidden = head_input(*model.model, run);
  require<ShapeError>(place >= 0 && place < hidden.dim(0), "logits: there is no place ", place, "; there are ",
                      hidden.dim(0), ", counted from 0");
  const auto logits = head_of(*model.model).logits(slice(hidden, 0, place, place + 1)).to_vector<float>();
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(
      order, [&](int32_t a, int32_t b) { return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)]; });
  std::vector<float> sorted;
  for (const int32_t id : order) sorted.push_back(logits[static_cast<size_t>(id)]);
  Json top = Json::array();
  for (size_t i = 0; i < std::min(kNamed, order.size()); ++i) {
    top.push_back({{"id", order[i]}, {"text", show_token(*model.tokenizer, order[i]).text}});
  }
  std::string packed;
  append_base64(packed, std::as_bytes(std::span(sorted)));
  return {{"top", std::move(top)}, {"sorted", std::move(packed)}};
}

}  // namespace attend
