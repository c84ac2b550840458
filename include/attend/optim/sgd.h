#pragma once

#include <map>
#include <string>
#include <vector>

#include "attend/nn/parameters.h"

namespace attend {

struct SgdConfig {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

/// Gradient descent with momentum, as in PyTorch: the buffer starts as the first gradient.
class Sgd {
 public:
  /// Throws ShapeError for a config out of range, or nesterov without momentum or with dampening.
  Sgd(std::vector<NamedTensor> parameters, const SgdConfig& config);

  /// One update from the gradients that are there; parameters without one stay as they are.
  void step();
  SgdConfig& config() { return config_; }

  /// `<parameter>.momentum` for all that have been updated: aliases, not copies. Empty without momentum.
  std::map<std::string, Tensor> state() const;
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
