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

void Updater::set_rate(double lr) { (adam_ ? adam_->config().lr : sgd_->config().lr) = lr; }

void Updater::step(const GradNormLimit& limit, const Tensor& rates) {
  if (adam_) adam_->step(limit, rates);
  if (sgd_) sgd_->step(limit, rates);
}

std::vector<double> Updater::rates() const { return adam_ ? adam_->rates() : sgd_->rates(); }

std::vector<int64_t> Updater::steps() const { return adam_ ? adam_->steps() : std::vector<int64_t>{}; }

void Updater::set_steps(const std::vector<int64_t>& steps) {
  if (adam_) adam_->set_steps(steps);
}

std::map<std::string, Tensor> Updater::state() const { return adam_ ? adam_->state() : sgd_->state(); }

void Updater::load_state(const std::map<std::string, Tensor>& state) {
  if (adam_) adam_->load_state(state);
  if (sgd_) sgd_->load_state(state);
}

}  // namespace attend
