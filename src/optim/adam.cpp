#include "attend/optim/adam.h"

#include "backend/kernels.h"
#include "optim/state.h"

namespace attend {

Adam::Adam(std::vector<NamedTensor> parameters, const AdamConfig& config) : config_(config) {
  require_not_negative(config.lr, "Adam", "lr");
  require_not_negative(config.eps, "Adam", "eps");
  require_not_negative(config.weight_decay, "Adam", "weight_decay");
  const auto is_rate = [](double beta) { return beta >= 0 && beta < 1; };
  require<ShapeError>(is_rate(config.beta1) && is_rate(config.beta2), "Adam: beta1 and beta2 must be in [0, 1), got ",
                      config.beta1, " and ", config.beta2);
  for (auto& [name, tensor] : without_repeats(std::move(parameters))) {
    require_writable(tensor, "Adam", name);
    slots_.push_back({.name = std::move(name), .parameter = std::move(tensor)});
  }
}

namespace {

AdamOptions options_of(const AdamConfig& config) {
  return {
      .lr = config.lr, .beta1 = config.beta1, .beta2 = config.beta2, .eps = config.eps, .decoupled = config.decoupled};
}

}  // namespace

double Adam::decay_of(const Slot& slot) const {
  return !config_.decay_matrices_only || slot.parameter.rank() > 1 ? config_.weight_decay : 0;
}

void Adam::step(const GradNormLimit& limit, const Tensor& rates) {
  std::vector<AdamSlot> updates;
  for (size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    const Tensor gradient = grad(slot.parameter);
    if (!gradient) continue;
    if (!slot.m) {
      require_not_captured(slot.parameter, "Adam", slot.name);
      slot.m = zeros_like(slot.parameter), slot.v = zeros_like(slot.parameter);
    }
    updates.push_back({.grad = rows(gradient),
                       .param = rows(slot.parameter),
                       .m = rows(slot.m),
                       .v = rows(slot.v),
                       .weight_decay = decay_of(slot),
                       .step = ++slot.steps,
                       .rates = rates_at(rates, 3 * i, 3)});
  }
  if (updates.empty()) return;
  const Device device = slots_[0].parameter.device();
  kernels(device).optim.adam(updates, options_of(config_), clip_of(limit, device));
}

std::vector<double> Adam::rates() const {
  std::map<std::pair<int64_t, double>, std::array<double, 3>> known;  // most parameters have the same
  std::vector<double> result;
  for (const Slot& slot : slots_) {
    auto& rates = known[{slot.steps, decay_of(slot)}];
    if (rates[1] == 0) rates = adam_rates(options_of(config_), decay_of(slot), slot.steps + 1);
    result.insert(result.end(), rates.begin(), rates.end());
  }
  return result;
}

std::vector<int64_t> Adam::steps() const {
  std::vector<int64_t> result;
  for (const Slot& slot : slots_) result.push_back(slot.steps);
  return result;
}

void Adam::set_steps(const std::vector<int64_t>& steps) {
  require<ShapeError>(steps.size() == slots_.size(), "Adam: expected ", slots_.size(), " step counts, got ",
                      steps.size());
  for (size_t i = 0; i < steps.size(); ++i) slots_[i].steps = steps[i];
}

std::map<std::string, Tensor> Adam::state() const {
  std::map<std::string, Tensor> result;
  for (const Slot& slot : slots_) {
    if (slot.steps == 0) continue;
    result[slot.name + ".m"] = slot.m;
    result[slot.name + ".v"] = slot.v;
    result[slot.name + ".step"] = tensor<int64_t>({slot.steps}, {1});
  }
  return result;
}

void Adam::load_state(const std::map<std::string, Tensor>& state) {
  StateReader reader("Adam", state);
  std::vector<Slot> loaded = slots_;
  for (Slot& slot : loaded) {
    slot.m = reader.take(slot.name, "m", slot.parameter);
    slot.v = reader.take(slot.name, "v", slot.parameter);
    slot.steps = reader.take_count(slot.name, "step");
    const bool whole = static_cast<bool>(slot.m) == (slot.steps > 0) && static_cast<bool>(slot.v) == (slot.steps > 0);
    require<ShapeError>(whole, "Adam: the state of ", slot.name, " must have m, v and step");
  }
  reader.require_all_taken();
  slots_ = std::move(loaded);
}

Adam adamw(std::vector<NamedTensor> parameters, AdamConfig config) {
  config.decoupled = true;
  return {std::move(parameters), config};
}

}  // namespace attend
