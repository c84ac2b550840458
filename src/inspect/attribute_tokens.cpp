#include <algorithm>
#include <cmath>
#include <numbers>

#include "attend/autograd/autograd.h"
#include "attend/autograd/constant_parameters.h"
#include "attend/base/error.h"
#include "attend/inspect/attribute.h"
#include "attend/ops/arithmetic.h"
#include "attend/ops/reduce.h"
#include "attend/ops/shape.h"
#include "attend/ops/weight_format.h"
#include "attend/tensor/creation.h"
#include "generate/numbers.h"
#include "generate/top.h"
#include "inspect/structure.h"

namespace attend {
namespace {

constexpr int64_t kFewestSteps = 8, kMostSteps = 4096;

/// Replaces the token embeddings of every side by leaves that receive a gradient.
class EmbeddingChanger : public Observer {
 public:
  std::map<std::string, Tensor> fresh;

  Tensor replacement(std::string_view what, const Tensor& /*value*/) override {
    if (what != "tokens" && what != "words") return {};
    const auto found = fresh.find(path() + ":" + std::string(what));
    return found == fresh.end() ? Tensor{} : found->second;
  }
};

/// Nodes and weights of the Gauss–Legendre rule on [0, 1], by Newton's method on the Legendre polynomial.
std::vector<std::pair<double, double>> gauss_legendre(int64_t count) {
  std::vector<std::pair<double, double>> rule;
  const auto n = static_cast<double>(count);
  for (int64_t i = 0; i < count; ++i) {
    double x = std::cos(std::numbers::pi * (static_cast<double>(i) + 0.75) / (n + 0.5)), slope = 0;
    for (int round = 0; round < 100; ++round) {
      double p = 1, before = 0;
      for (int64_t k = 0; k < count; ++k) {
        const auto d = static_cast<double>(k);
        const double next = ((2 * d + 1) * x * p - d * before) / (d + 1);
        before = p;
        p = next;
      }
      slope = n * (x * p - before) / (x * x - 1);
      const double step = p / slope;
      x -= step;
      if (std::abs(step) < 1e-15) break;
    }
    rule.emplace_back((x + 1) / 2, 1 / ((1 - x * x) * slope * slope));
  }
  return rule;
}

class TokenWork {
 public:
  TokenWork(const Experiment& experiment, const TokenOptions& options)
      : experiment_(experiment), options_(options), goal_(resolved(experiment, options.goal)) {
    require<ShapeError>(options.most_steps >= kFewestSteps && options.most_steps <= kMostSteps,
                        "attribute: steps must be ", kFewestSteps, " to ", kMostSteps, ", got ", options.most_steps);
    for (const auto& [name, tensor] : experiment.model().model->parameters()) {
      require<Error>(!is_reduced(tensor), "attribute: gradients need f32 weights, but ", name, " is ", tensor.dtype(),
                     "; open the model with --dtype f32");
    }
    const NoGrad scope;
    ActivationRecorder seen;
    const Tensor logits = experiment_.logits(&seen, row());
    result_.goal = goal_;
    result_.value = goal_value(logits, 0, goal_).item();
    require_number(result_.value, "attribute");
    for (const StackPlace& stack : experiment.stacks()) {
      inputs_.push_back({stack.tokens, seen.at(stack.tokens), baseline_of(stack, seen.at(stack.tokens)), stack.side});
    }
  }

  TokenAttribution share() {
    const ConstantParameters scope;
    result_.gradient = zeros();
    add(gradients(1), 1, result_.gradient, true);
    {
      const NoGrad none;
      EmbeddingChanger changer;
      for (const Input& input : inputs_) changer.fresh[input.name] = input.baseline;
      result_.baseline = goal_value(experiment_.logits(&changer, row()), 0, goal_).item();
    }
    int64_t done = 1;
    for (int64_t steps = 16;; steps *= 2) {
      steps = std::min(steps, options_.most_steps);
      integrate(steps, done);
      if (result_.error <= options_.tolerance || steps == options_.most_steps) return std::move(result_);
    }
  }

 private:
  struct Input {
    std::string name;
    Tensor value, baseline;  // [1, tokens, dim]
    int64_t side = 0;
  };

  RowRange row() const { return {goal_.output, goal_.output + 1}; }

  /// The average of the vocabulary's embeddings, scaled as the model scales embeddings; for an image, the average
  /// patch.
  Tensor baseline_of(const StackPlace& stack, const Tensor& value) const {
    if (options_.uses_zero) return zeros_like(value);
    const RunSide& side = experiment_.sides()[static_cast<size_t>(stack.side)];
    if (side.picture) return expand(mean(value, 1, true), value.shape()).clone();
    Tensor average;
    double scale = 1;
    for (const auto& [name, tensor] : experiment_.model().model->parameters()) {
      const bool is_own = name == "target_embedding.weight" && stack.side == 1;
      if (name != "embedding.weight" && !is_own) continue;
      average = mean(to(to(tensor.detach(), kCpu), DType::f32), 0);
      scale = scale_of(tensor.detach(), side, value);
    }
    require<Error>(static_cast<bool>(average), "attribute: the model has no token embeddings");
    const Tensor row = to(reshape(average * scale, {1, 1, -1}), value.device());
    return expand(row, value.shape()).clone();
  }

  /// Some models multiply embeddings by √dim: the ratio of a token's vector to its row of the table.
  static double scale_of(const Tensor& table, const RunSide& side, const Tensor& value) {
    const auto seen = select(select(value, 0, 0), 0, 0).to_vector<double>();
    const auto row = to(select(table, 0, side.tokens[0].id), DType::f32).to_vector<double>();
    double product = 0, square = 0;
    for (size_t i = 0; i < row.size(); ++i) product += row[i] * seen[i], square += row[i] * row[i];
    return square > 0 ? product / square : 1;
  }

  std::vector<std::vector<double>> zeros() const {
    std::vector<std::vector<double>> result;
    for (const Input& input : inputs_) result.emplace_back(static_cast<size_t>(input.value.dim(1)), 0.0);
    return result;
  }

  /// The gradient at baseline + share · (value − baseline), for each input.
  std::vector<Tensor> gradients(double share) {
    EmbeddingChanger changer;
    std::vector<Tensor> leaves;
    for (const Input& input : inputs_) {
      const NoGrad scope;
      leaves.push_back(input.value * share + input.baseline * (1 - share));
    }
    for (size_t i = 0; i < leaves.size(); ++i) changer.fresh[inputs_[i].name] = set_requires_grad(leaves[i]);
    backward(goal_value(experiment_.logits(&changer, row()), 0, goal_));
    std::vector<Tensor> result;
    for (const Tensor& leaf : leaves) result.push_back(grad(leaf));
    return result;
  }

  /// Adds weight · Σ_d gradient · (value − baseline), or · value if `is_plain`.
  void add(const std::vector<Tensor>& gradients, double weight, std::vector<std::vector<double>>& sums, bool is_plain) {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (!gradients[i]) continue;  // the goal does not depend on this side
      const auto slope = gradients[i].to_vector<double>(), value = inputs_[i].value.to_vector<double>();
      const auto from = inputs_[i].baseline.to_vector<double>();
      const size_t width = slope.size() / sums[i].size();
      for (size_t k = 0; k < slope.size(); ++k) {
        sums[i][k / width] += weight * slope[k] * (is_plain ? value[k] : value[k] - from[k]);
      }
    }
  }

  /// ∫₀¹ gradient(α) dα with α = t³, whose nodes lie close together near the baseline, where norms bend the path most.
  void integrate(int64_t steps, int64_t& done) {
    result_.integrated = zeros();
    result_.steps = steps;
    for (const auto& [t, weight] : gauss_legendre(steps)) {
      if (options_.on_step) options_.on_step(done, std::max(done + 1, 2 * options_.most_steps));
      add(gradients(t * t * t), weight * 3 * t * t, result_.integrated, false);
      ++done;
    }
    double sum = 0;
    for (const auto& side : result_.integrated) {
      for (const double value : side) sum += value;
    }
    const double change = result_.value - result_.baseline;
    result_.error = std::abs(sum - change) / std::max(std::abs(change), 1e-12);
  }

  const Experiment& experiment_;
  const TokenOptions& options_;
  Goal goal_;
  std::vector<Input> inputs_;
  TokenAttribution result_;
};

}  // namespace

Goal resolved(const Experiment& experiment, Goal goal) {
  if (goal.output < 0) goal.output = experiment.usual_output();
  require<ShapeError>(goal.output < experiment.outputs(), "there is no output ", goal.output, "; there are ",
                      experiment.outputs(), ", counted from 0");
  const auto check = [&](int64_t id) {
    require<ShapeError>(id < experiment.classes(), "there is no class ", id, "; there are ", experiment.classes(),
                        ", counted from 0");
  };
  check(goal.wanted);
  check(goal.contrast);
  if (goal.wanted >= 0) return goal;
  const NoGrad scope;
  std::vector<Continuation> best;
  top_values(experiment.logits(nullptr, {goal.output, goal.output + 1}).to_vector<float>(), 1, best);
  require<Error>(!best.empty(), "the model computed no numbers");
  goal.wanted = best[0].id;
  return goal;
}

Tensor goal_value(const Tensor& logits, int64_t row, const Goal& goal) {
  const Tensor own = select(logits, 0, row), wanted = select(own, 0, goal.wanted);
  return goal.contrast < 0 ? wanted : wanted - select(own, 0, goal.contrast);
}

TokenAttribution attribute_tokens(const Experiment& experiment, const TokenOptions& options) {
  return TokenWork(experiment, options).share();
}

}  // namespace attend
