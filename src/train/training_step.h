#pragma once

#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "attend/train/objective.h"
#include "backend/graph.h"
#include "tensor/device_constants.h"
#include "train/gradient_exchange.h"
#include "train/updater.h"

namespace attend {

struct TrainingStepOptions {
  Precision precision = Precision::f32;
  double max_norm = std::numeric_limits<double>::infinity();  ///< of all gradients together; larger ones are scaled
  bool recompute = false;                                     ///< see ForwardPass::recompute
  GradientOrder order = GradientOrder::tree;
  WireType wire = WireType::f32;
  /// The processes that divide the batches of an update among themselves; null: this process alone. Each computes an
  /// equal, consecutive share: batch j of rank r is batch r · share + j of the update.
  distributed::Group* group = nullptr;
  std::function<void(const std::string&)> note;  ///< may be empty
};

/// Runs training steps: losses, gradients and the update of the parameters.
///
/// The gradients of an update's batches are added in a fixed binary tree, and each batch draws its random numbers from
/// streams of its own. So an update has the same bits however its batches are divided among processes.
///
/// On a GPU a step reads nothing back, and its inputs are copied to the device in one piece. The first step with inputs
/// of certain shapes runs kernel by kernel. The second one is captured in a graph, and the following ones launch the
/// graph; all give the same bits. The least recently used shapes are forgotten. If a step cannot be captured, this is
/// noted once, and all steps run kernel by kernel.
class TrainingStep {
 public:
  /// `updater` must outlive this object. All parameters are on one device.
  TrainingStep(std::vector<NamedTensor> parameters, Updater& updater, TrainingStepOptions options);

  /// One update at the learning rate `lr`, with the gradient of the mean loss over all tokens of the batches. `tokens`
  /// has the number of predictions of each batch of the update, in all processes; it may be empty in one process.
  /// Returns the mean loss of each batch, then the squared norm of the gradients: f64 [batches + 1] on the device. The
  /// next call may overwrite it. If the norm is not finite, the parameters do not change.
  Tensor run(const std::vector<MicroBatch>& batches, double lr, Rng& rng, std::vector<int64_t> tokens = {});
  /// The time of exchanges of gradients so far.
  ExchangeTimes exchange_times() const { return exchange_ ? exchange_->times() : ExchangeTimes{}; }

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

  /// How the gradients of one batch are computed, on the host or on a device.
  struct BatchWork {
    std::function<std::vector<Tensor>(size_t batch)> inputs;
    std::function<Tensor(const Tensor& loss, size_t batch)> scaled;  // by the batch's share of all tokens
    Tensor results;
  };
  Tensor run_on_host(const std::vector<MicroBatch>& batches, Rng& rng);
  Tensor run_on_device(const std::vector<MicroBatch>& batches, Rng& rng);
  uint64_t compute_gradients(const std::vector<MicroBatch>& batches, const Rng& rng, const BatchWork& work);
  void take_gradient(size_t parameter, int64_t batch);
  uint64_t share_results(const Tensor& results, int64_t batches, uint64_t streams);
  std::vector<double> shares() const;
  Known& known_step(const std::vector<MicroBatch>& batches);
  void upload(const Known& step, const std::vector<MicroBatch>& batches, const Rng& rng);
  uint64_t run_kernels(const Known& step, const std::vector<MicroBatch>& batches, uint64_t seed);
  void capture(Known& step, const std::vector<MicroBatch>& batches, uint64_t seed);
  void launch(const Known& step, Rng& rng);
  int ranks() const { return options_.group ? options_.group->size() : 1; }
  int rank() const { return options_.group ? options_.group->rank() : 0; }
  void zero_grads();

  std::vector<NamedTensor> parameters_;
  Updater& updater_;
  TrainingStepOptions options_;
  Device device_;
  std::vector<Tensor> leaves_;                  // the parameters without duplicates
  std::vector<GradientSum> sums_;               // of the leaves' gradients
  std::vector<bool> has_gradient_;              // on several processes: whether a batch of this update reached the leaf
  std::unique_ptr<GradientExchange> exchange_;  // of several processes
  std::vector<int64_t> tokens_;                 // of each batch of the update
  bool captures_ = false;
  uint64_t calls_ = 0;
  DeviceConstants constants_;
  std::map<Shapes, Known> known_;
  std::vector<int64_t> numbers_;  // the host's copy of Known::buffer
};

}  // namespace attend
