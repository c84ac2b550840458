#pragma once

#include <map>
#include <string>
#include <vector>

#include "attend/nn/parameters.h"

namespace attend {

struct AdamConfig {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool decoupled = false;  ///< AdamW: decay the parameter itself (Loshchilov and Hutter 2019), not its gradient
  bool decay_matrices_only = false;  ///< leave biases and norms (one axis) alone
};

/// Adam (Kingma and Ba 2015) and AdamW, with bias correction. Holds handles to the parameters and two moments for each.
class Adam {
 public:
  /// Throws ShapeError for a config out of range. Moments are made when a parameter gets its first gradient.
  Adam(std::vector<NamedTensor> parameters, const AdamConfig& config);

  /// One update from the gradients that are there; parameters without one stay as they are.
  void step();
  /// May be changed between steps: config().lr = schedule.at(n).
  AdamConfig& config() { return config_; }

  /// `<parameter>.m`, `.v` and `.step` for all that have been updated: aliases, not copies.
  std::map<std::string, Tensor> state() const;
  /// The reverse, by copying; throws ShapeError for a name or shape that does not fit.
  void load_state(const std::map<std::string, Tensor>& state);

 private:
  struct Slot {
    std::string name;
    Tensor parameter, m, v;
    int64_t steps = 0;
  };
  AdamConfig config_;
  std::vector<Slot> slots_;
};

/// Adam with decoupled decay; PyTorch's default decay.
Adam adamw(std::vector<NamedTensor> parameters, AdamConfig config = {.weight_decay = 0.01});

}  // namespace attend
