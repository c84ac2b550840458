#pragma once

#include <map>
#include <string>
#include <vector>

#include "attend/nn/parameters.h"
#include "attend/optim/clip.h"

namespace attend {

struct AdamConfig {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool decoupled = false;  ///< AdamW: decay the parameter itself (Loshchilov and Hutter 2019), not its gradient
  bool decay_matrices_only = false;  ///< no weight decay on parameters with one axis (biases and norms)
};

/// Adam (Kingma and Ba 2015) and AdamW, with bias correction. Holds handles to the parameters, and two moments for each
/// parameter.
class Adam {
 public:
  /// Throws ShapeError if a config value is out of range or a parameter is read-only. The moments of a parameter are
  /// allocated at its first update.
  Adam(std::vector<NamedTensor> parameters, const AdamConfig& config);

  /// Updates each parameter that has a gradient. `rates` may be a copy of rates() on the parameters' device. The
  /// kernels then read the learning rate and the step counts from there, as a step that is captured in a graph needs.
  void step(const GradNormLimit& limit = {}, const Tensor& rates = {});
  /// The numbers of the next step that depend on the learning rate and the step counts: three for each parameter.
  std::vector<double> rates() const;
  /// How often each parameter has been updated. A launch of a captured step is counted by set_steps().
  std::vector<int64_t> steps() const;
  void set_steps(const std::vector<int64_t>& steps);
  /// May be changed between steps: config().lr = schedule.at(n).
  AdamConfig& config() { return config_; }

  /// `<parameter>.m`, `.v` and `.step` of each parameter that has been updated. The tensors share the optimiser's data.
  std::map<std::string, Tensor> state() const;
  /// Restores a state that state() returned, by copying it. Throws ShapeError if a name or a shape does not match.
  void load_state(const std::map<std::string, Tensor>& state);

 private:
  struct Slot {
    std::string name;
    Tensor parameter, m, v;
    int64_t steps = 0;
  };
  double decay_of(const Slot& slot) const;

  AdamConfig config_;
  std::vector<Slot> slots_;
};

/// AdamW: Adam with decoupled weight decay. The default decay is PyTorch's.
Adam adamw(std::vector<NamedTensor> parameters, AdamConfig config = {.weight_decay = 0.01});

}  // namespace attend
