#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "attend/models/model.h"
#include "attend/optim/adam.h"
#include "attend/optim/sgd.h"
#include "attend/train/options.h"

namespace attend {

/// The optimizer that the training options choose: Adam, AdamW or SGD.
class Updater {
 public:
  Updater(std::vector<NamedTensor> parameters, const TrainingOptions& options);

  /// Sets the learning rate of the next step.
  void set_rate(double lr);
  /// Updates the parameters by their gradients. `rates` may be a copy of rates() on the parameters' device: see Adam.
  void step(const GradNormLimit& limit, const Tensor& rates = {});
  std::vector<double> rates() const;
  /// The step count of each parameter; none for SGD.
  std::vector<int64_t> steps() const;
  void set_steps(const std::vector<int64_t>& steps);
  /// The optimizer's state between steps, by name. Checkpoints save it.
  std::map<std::string, Tensor> state() const;
  /// Copies a state returned by state(). Throws ShapeError for a name or shape that does not match.
  void load_state(const std::map<std::string, Tensor>& state);

 private:
  std::optional<Adam> adam_;
  std::optional<Sgd> sgd_;
};

}  // namespace attend
