#pragma once

#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "attend/train/objective.h"
#include "backend/graph.h"
#include "tensor/device_constants.h"
#include "train/updater.h"

namespace attend {

struct TrainingStepOptions {
  Precision precision = Precision::f32;
  double max_norm = std::numeric_limits<double>::infinity();  ///< of all gradients together; larger ones are scaled
  bool recompute = false;                                     ///< see ForwardPass::recompute
  std::function<void(const std::string&)> note;               ///< may be empty
};

/// Runs training steps: losses, gradients and the update of the parameters.
///
/// On a GPU a step reads nothing back, and its inputs are copied to the device in one piece. The first step with inputs
/// of certain shapes runs kernel by kernel. The second one is captured in a graph, and the following ones launch the
/// graph; all give the same bits. The least recently used shapes are forgotten. If a step cannot be captured, this is
/// noted once, and all steps run kernel by kernel.
class TrainingStep {
 public:
  /// `updater` must outlive this object. All parameters are on one device.
  TrainingStep(std::vector<NamedTensor> parameters, Updater& updater, TrainingStepOptions options);

  /// One update at the learning rate `lr`, with the gradient of the mean loss over all tokens of the batches. Returns
  /// the mean loss of each batch, then the squared norm of the gradients: f64 [batches + 1] on the device. The next
  /// call may overwrite it. If the norm is not finite, the parameters do not change.
  Tensor run(const std::vector<MicroBatch>& batches, double lr, Rng& rng);

 private:
  using Shapes = std::vector<int64_t>;
  /// Steps on a GPU whose inputs have the same shapes.
  struct Known {
    Tensor buffer;  // i64: the numbers of a step
    Tensor values;  // f64: its results
    bool has_run = false;
    uint64_t last_use = 0;
    // Of the captured step: the kernels, the number of random streams it takes, and the parameters that it updates.
    DeviceGraph graph;
    uint64_t streams = 0;
    std::vector<int64_t> counted;
  };

  Tensor run_on_host(const std::vector<MicroBatch>& batches, Rng& rng);
  Tensor run_on_device(const std::vector<MicroBatch>& batches, Rng& rng);
  Known& known_step(const std::vector<MicroBatch>& batches);
  void upload(const Known& step, const std::vector<MicroBatch>& batches, const Rng& rng);
  uint64_t run_kernels(const Known& step, const std::vector<MicroBatch>& batches, uint64_t seed);
  void capture(Known& step, const std::vector<MicroBatch>& batches, uint64_t seed);
  void launch(const Known& step, Rng& rng);
  void zero_grads() const;

  std::vector<NamedTensor> parameters_;
  Updater& updater_;
  TrainingStepOptions options_;
  Device device_;
  bool captures_ = false;
  uint64_t calls_ = 0;
  DeviceConstants constants_;
  std::map<Shapes, Known> known_;
  std::vector<int64_t> numbers_;  // the host's copy of Known::buffer
};

}  // namespace attend
