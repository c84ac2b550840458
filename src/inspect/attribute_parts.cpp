#include <algorithm>

#include "attend/autograd/autograd.h"
#include "attend/inspect/attribute.h"
#include "attend/models/encoder.h"
#include "attend/models/transformer_model.h"
#include "attend/ops/shape.h"
#include "inspect/readout.h"

namespace attend {
namespace {

Row row_at(const Tensor& value, int64_t place) { return select(select(value, 0, 0), 0, place).to_vector<double>(); }

/// Walks the last stack backwards. `form_` is the goal as a linear form on the residual stream at the current point.
class PartsWork {
 public:
  PartsWork(const Experiment& experiment, const Goal& goal)
      : experiment_(experiment), stack_(experiment.residual_stack("direct logit attribution")) {
    result_.goal = resolved(experiment, goal);
  }

  LogitParts share() {
    const NoGrad scope;
    const Model& model = *experiment_.model().model;
    const int64_t output = result_.goal.output;
    result_.value = goal_value(experiment_.logits(&seen_, {output, output + 1}), 0, result_.goal).item();
    form_ = readout_form(experiment_, seen_, result_.goal, result_.parts);
    const std::vector<LayerPlace> layers = layers_of(model, stack_);
    if (const Norm* norm = final_norm_of(model, stack_)) {
      pass_norm(*norm, seen_.at(stack_.output(stack_.layers - 1)), stack_.name + ".norm", -1);
    }
    for (int64_t layer = stack_.layers - 1; layer >= 0; --layer) pass_layer(layers[static_cast<size_t>(layer)], layer);
    pass_embedding(model);
    std::ranges::reverse(result_.parts);
    result_.remainder = result_.value;
    for (const LogitPart& part : result_.parts) result_.remainder -= part.value;
    return std::move(result_);
  }

 private:
  double value_of(const Tensor& activation) const {
    double sum = 0;
    for (size_t i = 0; i < form_.places.size(); ++i) sum += dot(form_.slopes[i], row_at(activation, form_.places[i]));
    return sum;
  }
  double value_of_constant(const Tensor& parameter) const {
    if (!parameter) return 0;
    const Row row = row_of(parameter, 0);
    double sum = 0;
    for (const Row& slope : form_.slopes) sum += dot(slope, row);
    return sum;
  }
  void add(LogitPart part) { result_.parts.push_back(std::move(part)); }

  void pass_norm(const Norm& norm, const Tensor& input, const std::string& module, int64_t layer) {
    if (norm.bias) add({.module = module, .layer = layer, .value = value_of_constant(norm.bias)});
    for (size_t i = 0; i < form_.places.size(); ++i) {
      form_.slopes[i] = before_norm(norm, row_at(input, form_.places[i]), form_.slopes[i]);
    }
  }

  void pass_layer(const LayerPlace& layer, int64_t index) {
    for (size_t i = layer.branches.size(); i-- > 0;) {
      const BranchPlace& branch = layer.branches[i];
      const std::string path = stack_.layer(index) + "." + branch.name;
      if (!layer.norm_first) pass_norm(*branch.norm, seen_.at(path + ":residual"), path + "_norm", index);
      branch.attention ? add_heads(*branch.attention, path, index) : add_network(*branch.feed_forward, path, index);
    }
  }

  void add_network(const FeedForward& network, const std::string& path, int64_t layer) {
    const double bias = value_of_constant(network.down.bias);
    if (network.down.bias) add({.module = path, .layer = layer, .value = bias});
    add({.kind = PartKind::feed_forward,
         .module = path,
         .layer = layer,
         .value = value_of(seen_.at(path + ":branch")) - bias});
  }

  /// The output of a head is its part of the columns of "attended", times the same columns of the output projection.
  void add_heads(const MultiheadAttention& attention, const std::string& path, int64_t layer) {
    if (attention.output.bias) add({.module = path, .layer = layer, .value = value_of_constant(attention.output.bias)});
    const Matrix weight(attention.output.weight);
    const Tensor& attended = seen_.at(path + ":attended");
    const auto heads = attention.config.heads, width = weight.columns / heads;
    std::vector<double> sums(static_cast<size_t>(heads), 0.0);
    for (size_t i = 0; i < form_.places.size(); ++i) {
      const Row slope = weight.times_left(form_.slopes[i]), value = row_at(attended, form_.places[i]);
      for (size_t k = 0; k < slope.size(); ++k) sums[k / static_cast<size_t>(width)] += slope[k] * value[k];
    }
    for (int64_t head = heads - 1; head >= 0; --head) {
      add({.kind = PartKind::head,
           .module = path,
           .layer = layer,
           .head = head,
           .value = sums[static_cast<size_t>(head)]});
    }
  }

  static const Norm* embedding_norm(const Model& model) {
    if (const auto* encoder = dynamic_cast<const Encoder*>(&model)) return &encoder->embedding_norm;
    if (const auto* pair = dynamic_cast<const TransformerModel*>(&model)) {
      return pair->target_norm ? &*pair->target_norm : nullptr;
    }
    return nullptr;
  }

  void pass_embedding(const Model& model) {
    std::string whole = stack_.embedded;
    if (const Norm* norm = embedding_norm(model)) {
      whole.replace(whole.find(':'), std::string::npos, ":summed");
      pass_norm(*norm, seen_.at(whole), "embedding_norm", -1);
    }
    std::string tokens = stack_.tokens;  // as they enter the sum: some models multiply them by √dim
    tokens.replace(tokens.find(':'), std::string::npos, ":scaled");
    if (!seen_.values.contains(tokens)) tokens = stack_.tokens;
    const double token = value_of(seen_.at(tokens)), all = value_of(seen_.at(whole));
    if (all != token) add({.kind = PartKind::position, .value = all - token});
    add({.kind = PartKind::token, .value = token});
  }

  const Experiment& experiment_;
  const StackPlace& stack_;
  ActivationRecorder seen_;
  Form form_;
  LogitParts result_;
};

}  // namespace

LogitParts logit_parts(const Experiment& experiment, const Goal& goal) { return PartsWork(experiment, goal).share(); }

}  // namespace attend
