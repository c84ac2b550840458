#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "attend/models/model.h"
#include "attend/optim/adam.h"
#include "attend/optim/sgd.h"
#include "attend/train/options.h"
#include "distributed/group.h"

namespace attend {

/// A part of the optimizer's state: rows [begin, end) of a parameter's first axis.
struct StateRows {
  std::string name;
  int64_t rows = 0;  ///< of the whole parameter
  int64_t begin = 0, end = 0;
};

/// The rows of a parameter that the process `rank` of `processes` owns.
std::pair<int64_t, int64_t> owned_rows(int64_t rows, int64_t rank, int64_t processes);

/// The optimizer that the training options choose: Adam, AdamW or SGD.
///
/// With the option `shard`, each process of a group holds the state of its rows of each parameter, and updates these
/// rows; then all processes get all rows. Updates are elementwise, so the bits are the same.
class Updater {
 public:
  Updater(std::vector<NamedTensor> parameters, const TrainingOptions& options,
          distributed::Group& group = distributed::world());

  /// Sets the learning rate of the next step.
  void set_rate(double lr);
  /// Updates the parameters by their gradients. `rates` may be a copy of rates() on the parameters' device: see Adam.
  void step(const GradNormLimit& limit, const Tensor& rates = {});
  std::vector<double> rates() const;
  /// The step count of each parameter; none for SGD.
  std::vector<int64_t> steps() const;
  void set_steps(const std::vector<int64_t>& steps);
  /// The optimizer's state between steps, by name. Checkpoints save it. If the state is divided, that of rows().
  std::map<std::string, Tensor> state() const;
  /// The rows of each parameter whose state this process holds.
  const std::vector<StateRows>& rows() const { return rows_; }
  bool is_sharded() const { return group_ != nullptr; }
  /// Copies a state returned by state(). Throws ShapeError for a name or shape that does not match.
  void load_state(const std::map<std::string, Tensor>& state);

 private:
  std::vector<NamedTensor> divide(const std::vector<NamedTensor>& parameters);
  void take_gradients() const;
  void gather_rows() const;

  std::vector<StateRows> rows_;
  distributed::Group* group_ = nullptr;           // of processes that divide the state; null: not divided
  std::vector<Tensor> whole_;                     // the parameters of a divided state
  std::vector<std::pair<Tensor, Tensor>> owned_;  // parameter and its owned rows
  std::optional<Adam> adam_;
  std::optional<Sgd> sgd_;
};

}  // namespace attend
