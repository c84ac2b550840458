#include "train/updater.h"

namespace attend {

Updater::Updater(std::vector<NamedTensor> parameters, const TrainingOptions& options) {
  if (options.optimizer == OptimizerKind::sgd) {
    sgd_.emplace(std::move(parameters), SgdConfig{.momentum = options.momentum, .weight_decay = options.weight_decay});
    return;
  }
  adam_.emplace(std::move(parameters), AdamConfig{.beta1 = options.beta1,
                                                  .beta2 = options.beta2,
                                                  .eps = 1e-9,
                                                  .weight_decay = options.weight_decay,
                                                  .decoupled = options.optimizer == OptimizerKind::adamw,
                                                  .decay_matrices_only = true});
}

void Updater::step(double lr, const GradNormLimit& limit) {
  if (adam_) adam_->config().lr = lr, adam_->step(limit);
  if (sgd_) sgd_->config().lr = lr, sgd_->step(limit);
}

std::map<std::string, Tensor> Updater::state() const { return adam_ ? adam_->state() : sgd_->state(); }

void Updater::load_state(const std::map<std::string, Tensor>& state) {
  if (adam_) adam_->load_state(state);
  if (sgd_) sgd_->load_state(state);
}

}  // namespace attend
