#include "attend/optim/sgd.h"

#include "backend/kernels.h"
#include "optim/state.h"

namespace attend {

Sgd::Sgd(std::vector<NamedTensor> parameters, const SgdConfig& config) : config_(config) {
  require_not_negative(config.lr, "Sgd", "lr");
  require_not_negative(config.momentum, "Sgd", "momentum");
  require_not_negative(config.weight_decay, "Sgd", "weight_decay");
  require<ShapeError>(!config.nesterov || (config.momentum > 0 && config.dampening == 0),
                      "Sgd: nesterov needs a momentum and no dampening, got ", config.momentum, " and ",
                      config.dampening);
  for (auto& [name, tensor] : without_repeats(std::move(parameters))) {
    require_writable(tensor, "Sgd", name);
    slots_.push_back({.name = std::move(name), .parameter = std::move(tensor)});
  }
}

void Sgd::step(const GradNormLimit& limit, const Tensor& rates) {
  std::vector<SgdSlot> updates;
  for (Slot& slot : slots_) {
    const Tensor gradient = grad(slot.parameter);
    if (!gradient) continue;
    const bool first = config_.momentum > 0 && !slot.buffer;
    if (first) {
      require_not_captured(slot.parameter, "Sgd", slot.name);
      slot.buffer = zeros_like(slot.parameter);
    }
    updates.push_back(
        {.grad = rows(gradient), .param = rows(slot.parameter), .buffer = rows_or_empty(slot.buffer), .first = first});
  }
  if (updates.empty()) return;
  const Device device = slots_[0].parameter.device();
  kernels(device).optim.sgd(updates,
                            {.lr = config_.lr,
                             .momentum = config_.momentum,
                             .weight_decay = config_.weight_decay,
                             .dampening = config_.dampening,
                             .nesterov = config_.nesterov,
                             .rate = rates_at(rates, 0, 1)},
                            clip_of(limit, device));
}

std::map<std::string, Tensor> Sgd::state() const {
  std::map<std::string, Tensor> result;
  for (const Slot& slot : slots_) {
    if (slot.buffer) result[slot.name + ".momentum"] = slot.buffer;
  }
  return result;
}

void Sgd::load_state(const std::map<std::string, Tensor>& state) {
  StateReader reader("Sgd", state);
  std::vector<Slot> loaded = slots_;
  for (Slot& slot : loaded) slot.buffer = reader.take(slot.name, "momentum", slot.parameter);
  reader.require_all_taken();
  slots_ = std::move(loaded);
}

}  // namespace attend
