#pragma once

#include <map>
#include <string>
#include <vector>

#include "attend/nn/parameters.h"
#include "attend/optim/clip.h"

namespace attend {

struct SgdConfig {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

/// Stochastic gradient descent with momentum, as in PyTorch: the momentum buffer starts as the first gradient.
class Sgd {
 public:
  /// Throws ShapeError if a config value is out of range, a parameter is read-only, or nesterov is set without momentum
  /// or with dampening.
  Sgd(std::vector<NamedTensor> parameters, const SgdConfig& config);

  /// Updates each parameter that has a gradient. `rates` may be a copy of rates() on the parameters' device. The
  /// kernels then read the learning rate from there, as a step that is captured in a graph needs.
  void step(const GradNormLimit& limit = {}, const Tensor& rates = {});
  std::vector<double> rates() const { return {config_.lr}; }  ///< the learning rate
  SgdConfig& config() { return config_; }

  /// `<parameter>.momentum` of each parameter that has been updated. The tensors share the optimiser's data. Empty
  /// without momentum.
  std::map<std::string, Tensor> state() const;
  /// Restores a state that state() returned, by copying it. Throws ShapeError if a name or a shape does not match.
  void load_state(const std::map<std::string, Tensor>& state);

 private:
  struct Slot {
    std::string name;
    Tensor parameter, buffer;
  };
  SgdConfig config_;
  std::vector<Slot> slots_;
};

}  // namespace attend
