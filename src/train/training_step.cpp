#include "train/training_step.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "attend/autograd/autograd.h"
#include "attend/ops/arithmetic.h"
#include "attend/ops/precision.h"
#include "attend/ops/shape.h"
#include "attend/optim/clip.h"
#include "attend/tensor/creation.h"
#include "backend/kernels.h"
#include "ops/trusted_indices.h"

namespace attend {
namespace {

constexpr size_t kMostShapes = 64;
constexpr size_t kMostConstants = size_t{1} << 30;  // bytes
constexpr int64_t kIgnored = -100;

/// Where the numbers of a step are in its buffer, in elements of 8 bytes: the number of the first random stream, the
/// optimizer's rates, each batch's share of all tokens, and the inputs, which begin at multiples of 256 bytes.
struct Layout {
  static constexpr int64_t kStream = 0, kRates = 1, kAlignment = 32;
  int64_t shares = 0, size = 0;
  std::vector<int64_t> inputs;

  Layout(const std::vector<MicroBatch>& batches, int64_t rates)
      : shares(kRates + rates), size(shares + std::ssize(batches)) {
    for (const MicroBatch& batch : batches) {
      for (const BatchInput& input : batch.inputs) {
        inputs.push_back((size + kAlignment - 1) / kAlignment * kAlignment);
        size = inputs.back() + input.values.numel();
      }
    }
  }
};

/// A part of the buffer as a tensor.
Tensor part(const Tensor& buffer, DType dtype, const Shape& shape, int64_t offset) {
  return {buffer.storage(), dtype, shape, contiguous_strides(shape), offset};
}

std::vector<double> shares_of(const std::vector<MicroBatch>& batches) {
  int64_t tokens = 0;
  for (const MicroBatch& batch : batches) tokens += batch.tokens;
  std::vector<double> shares;
  for (const MicroBatch& batch : batches) {
    shares.push_back(static_cast<double>(batch.tokens) / static_cast<double>(std::max<int64_t>(tokens, 1)));
  }
  return shares;
}

/// Kernels trust these values: see TrustedIndices.
void check_values(const BatchInput& input) {
  require<ShapeError>(input.values.device() == kCpu && input.values.dtype() == DType::i64,
                      "training step: inputs must be i64 on the host, got ", input.values.dtype(), " on ",
                      input.values.device());
  for (const int64_t value : input.values.data<const int64_t>()) {
    require<ShapeError>((value >= 0 && value < input.limit) || (input.has_ignored && value == kIgnored),
                        "training step: an input has the value ", value, ", expected less than ", input.limit);
  }
}

/// Copies a scalar into element `at` of the results.
void put_value(const Tensor& value, const Tensor& results, int64_t at) {
  copy_values(reshape(value.detach(), {1}), results.as_strided({1}, {1}, at));
}

}  // namespace

TrainingStep::TrainingStep(std::vector<NamedTensor> parameters, Updater& updater, TrainingStepOptions options)
    : parameters_(std::move(parameters)), updater_(updater), options_(std::move(options)) {
  if (!parameters_.empty()) device_ = parameters_[0].second.device();
  captures_ = has_graphs(device_);
}

Tensor TrainingStep::run(const std::vector<MicroBatch>& batches, double lr, Rng& rng) {
  const PrecisionScope precision(options_.precision, device_);
  updater_.set_rate(lr);
  return device_ == kCpu ? run_on_host(batches, rng) : run_on_device(batches, rng);
}

void TrainingStep::zero_grads() const {
  for (const auto& [name, parameter] : parameters_) zero_grad(parameter);
}

Tensor TrainingStep::run_on_host(const std::vector<MicroBatch>& batches, Rng& rng) {
  const std::vector<double> shares = shares_of(batches);
  const Tensor results = empty({std::ssize(batches) + 1}, {DType::f64, device_});
  for (size_t i = 0; i < batches.size(); ++i) {
    std::vector<Tensor> inputs;
    for (const BatchInput& input : batches[i].inputs) inputs.push_back(input.values);
    const Tensor value = batches[i].loss(inputs, {.rng = &rng, .recompute = options_.recompute});
    put_value(value, results, static_cast<int64_t>(i));
    backward(batches.size() == 1 ? value : value * shares[i]);
  }
  const Tensor squares = squared_grad_norm(parameters_);
  put_value(squares, results, std::ssize(batches));
  updater_.step({squares, options_.max_norm});
  zero_grads();
  return results;
}

Tensor TrainingStep::run_on_device(const std::vector<MicroBatch>& batches, Rng& rng) {
  const TrustedIndices trusted;
  std::optional<DeviceConstants::Scope> constants;
  if (captures_) constants.emplace(constants_);
  Known& step = known_step(batches);
  upload(step, batches, rng);
  if (step.has_run && captures_ && !step.graph) capture(step, batches, rng.seed);
  if (step.graph) {
    launch(step, rng);
  } else {
    rng.next += run_kernels(step, batches, rng.seed);
    step.has_run = true;
  }
  return step.values;
}

TrainingStep::Known& TrainingStep::known_step(const std::vector<MicroBatch>& batches) {
  Shapes shapes;
  for (const MicroBatch& batch : batches) {
    shapes.push_back(std::ssize(batch.inputs));
    for (const BatchInput& input : batch.inputs) {
      shapes.push_back(input.values.rank());
      shapes.insert(shapes.end(), input.values.shape().begin(), input.values.shape().end());
    }
  }
  const auto found = known_.find(shapes);
  if (found == known_.end() && known_.size() >= kMostShapes) {
    known_.erase(std::ranges::min_element(known_, {}, [](const auto& entry) { return entry.second.last_use; }));
  }
  if (found == known_.end() && constants_.bytes() > kMostConstants) {
    known_.clear();
    constants_.clear();
  }
  Known& step = found != known_.end() ? found->second : known_[shapes];
  step.last_use = ++calls_;
  if (!step.buffer) {
    step.buffer = empty({Layout(batches, std::ssize(updater_.rates())).size}, {DType::i64, device_});
    step.values = empty({std::ssize(batches) + 1}, {DType::f64, device_});
  }
  return step;
}

/// Copies everything in which this step differs from others of the same shapes to the device.
void TrainingStep::upload(const Known& step, const std::vector<MicroBatch>& batches, const Rng& rng) {
  const std::vector<double> rates = updater_.rates(), shares = shares_of(batches);
  const Layout layout(batches, std::ssize(rates));
  numbers_.assign(static_cast<size_t>(layout.size), 0);
  const auto at = [&](int64_t place) { return numbers_.begin() + static_cast<std::ptrdiff_t>(place); };
  const auto bits = [](double value) { return std::bit_cast<int64_t>(value); };
  *at(Layout::kStream) = static_cast<int64_t>(rng.next);
  std::ranges::transform(rates, at(Layout::kRates), bits);
  std::ranges::transform(shares, at(layout.shares), bits);
  size_t next = 0;
  for (const MicroBatch& batch : batches) {
    for (const BatchInput& input : batch.inputs) {
      check_values(input);
      std::ranges::copy(input.values.data<const int64_t>(), at(layout.inputs[next++]));
    }
  }
  kernels(device_).memory.upload(step.buffer.raw(), numbers_.data(), numbers_.size() * sizeof(int64_t));
}

/// Calls the kernels of a step, whose numbers are on the device. Returns the number of random streams that it takes.
uint64_t TrainingStep::run_kernels(const Known& step, const std::vector<MicroBatch>& batches, uint64_t seed) {
  const int64_t rates = std::ssize(updater_.rates());
  const Layout layout(batches, rates);
  Rng rng{seed, 0, static_cast<const uint64_t*>(step.buffer.raw()) + Layout::kStream};
  size_t next = 0;
  for (size_t i = 0; i < batches.size(); ++i) {
    std::vector<Tensor> inputs;
    for (const BatchInput& input : batches[i].inputs) {
      inputs.push_back(part(step.buffer, DType::i64, input.values.shape(), layout.inputs[next++]));
    }
    const Tensor value = batches[i].loss(inputs, {.rng = &rng, .recompute = options_.recompute});
    put_value(value, step.values, static_cast<int64_t>(i));
    if (batches.size() == 1) {
      backward(value);
      continue;
    }
    const Tensor share = part(step.buffer, DType::f64, {}, layout.shares + static_cast<int64_t>(i));
    backward(value * to(share, value.dtype()));
  }
  const Tensor squares = squared_grad_norm(parameters_);
  put_value(squares, step.values, std::ssize(batches));
  updater_.step({squares, options_.max_norm}, part(step.buffer, DType::f64, {rates}, Layout::kRates));
  zero_grads();
  return rng.next;
}

void TrainingStep::capture(Known& step, const std::vector<MicroBatch>& batches, uint64_t seed) {
  const std::vector<int64_t> before = updater_.steps();
  try {
    step.graph = DeviceGraph::capture(device_, [&] { step.streams = run_kernels(step, batches, seed); });
    step.counted = updater_.steps();
    for (size_t i = 0; i < before.size(); ++i) step.counted[i] -= before[i];
  } catch (const std::exception& error) {
    captures_ = false;
    if (options_.note) {
      options_.note(std::string("A training step cannot be captured and runs kernel by kernel: ") + error.what());
    }
    for (auto& [shapes, known] : known_) known.graph = {};
    zero_grads();
  }
  updater_.set_steps(before);
}

void TrainingStep::launch(const Known& step, Rng& rng) {
  step.graph.launch();
  rng.next += step.streams;
  std::vector<int64_t> steps = updater_.steps();
  for (size_t i = 0; i < steps.size(); ++i) steps[i] += step.counted[i];
  updater_.set_steps(steps);
}

}  // namespace attend
