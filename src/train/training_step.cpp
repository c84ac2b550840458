#include "train/training_step.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <set>

#include "attend/autograd/autograd.h"
#include "attend/ops/arithmetic.h"
#include "attend/ops/precision.h"
#include "attend/ops/shape.h"
#include "attend/optim/clip.h"
#include "attend/tensor/creation.h"
#include "autograd/leaf_watch.h"
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

/// The seed of a batch's random streams. The first batch has the training's, so that a step of one batch uses the
/// streams of the training one by one.
uint64_t seed_of(uint64_t seed, int64_t batch) {
  if (batch == 0) return seed;
  const auto words = philox(seed, static_cast<uint64_t>(batch), 0x6261746368);
  return words[0] | static_cast<uint64_t>(words[1]) << 32;
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
  captures_ = has_graphs(device_) && ranks() == 1;
  std::set<const Variable*> seen;
  for (const auto& [name, tensor] : parameters_) {
    if (seen.insert(tensor.variable().get()).second) leaves_.push_back(tensor);
  }
  sums_.resize(leaves_.size());
  has_gradient_.resize(leaves_.size());
}

Tensor TrainingStep::run(const std::vector<MicroBatch>& batches, double lr, Rng& rng, std::vector<int64_t> tokens) {
  const PrecisionScope precision(options_.precision, device_);
  updater_.set_rate(lr);
  tokens_ = std::move(tokens);
  if (tokens_.empty()) {
    for (const MicroBatch& batch : batches) tokens_.push_back(batch.tokens);
  }
  require<ShapeError>(tokens_.size() == batches.size() * static_cast<size_t>(ranks()), "training step: expected ",
                      batches.size() * static_cast<size_t>(ranks()), " token counts, got ", tokens_.size());
  if (ranks() > 1 && !exchange_) {
    exchange_ = std::make_unique<GradientExchange>(
        leaves_, *options_.group,
        ExchangeOptions{.batches = std::ssize(tokens_), .order = options_.order, .wire = options_.wire});
    if (device_ != kCpu && options_.note) options_.note("Gradients travel " + exchange_->path());
  }
  return device_ == kCpu ? run_on_host(batches, rng) : run_on_device(batches, rng);
}

/// Each batch's share of the update's tokens, for the batches of this process.
std::vector<double> TrainingStep::shares() const {
  int64_t total = 0;
  for (const int64_t tokens : tokens_) total += tokens;
  const size_t count = tokens_.size() / static_cast<size_t>(ranks()), first = static_cast<size_t>(rank()) * count;
  std::vector<double> shares;
  for (size_t i = first; i < first + count; ++i) {
    shares.push_back(static_cast<double>(tokens_[i]) / static_cast<double>(std::max<int64_t>(total, 1)));
  }
  return shares;
}

void TrainingStep::zero_grads() {
  for (GradientSum& sum : sums_) sum = {};
  for (const auto& [name, parameter] : parameters_) zero_grad(parameter);
}

Tensor TrainingStep::run_on_host(const std::vector<MicroBatch>& batches, Rng& rng) {
  const Tensor results = empty({std::ssize(tokens_) + 1}, {DType::f64, device_});
  const auto inputs = [&](size_t i) {
    std::vector<Tensor> values;
    for (const BatchInput& input : batches[i].inputs) values.push_back(input.values);
    return values;
  };
  const auto scaled = [shares = shares()](const Tensor& value, size_t i) { return value * shares[i]; };
  rng.next += compute_gradients(batches, rng, {inputs, scaled, results});
  const Tensor squares = squared_grad_norm(parameters_);
  put_value(squares, results, std::ssize(tokens_));
  updater_.step({squares, options_.max_norm});
  zero_grads();
  return results;
}

/// Sets the gradients of the parameters to those of the mean loss of all batches, and writes the losses to the results.
/// Returns the largest number of random streams that a batch takes.
uint64_t TrainingStep::compute_gradients(const std::vector<MicroBatch>& batches, const Rng& rng,
                                         const BatchWork& work) {
  const int64_t first = rank() * std::ssize(batches);
  std::map<const Variable*, size_t> places;
  for (size_t i = 0; i < leaves_.size(); ++i) places[leaves_[i].variable().get()] = i;
  std::vector<bool> is_sent(leaves_.size(), false);
  uint64_t streams = 0;
  for (size_t i = 0; i < batches.size(); ++i) {
    const int64_t number = first + static_cast<int64_t>(i);
    Rng own{seed_of(rng.seed, number), rng.next, rng.base};
    const Tensor value = batches[i].loss(work.inputs(i), {.rng = &own, .recompute = options_.recompute});
    put_value(value, work.results, number);
    streams = std::max(streams, own.next - rng.next);
    if (tokens_.size() == 1) {
      backward(value);
      return streams;
    }
    const auto send = [&](size_t leaf) {
      take_gradient(leaf, number);
      exchange_->ready(leaf, sums_[leaf]);
      is_sent[leaf] = true;
    };
    std::optional<LeafWatch> watch;
    const bool is_last = i + 1 == batches.size();
    if (exchange_ && is_last) {
      watch.emplace([&](const Variable* leaf) {
        if (const auto found = places.find(leaf); found != places.end()) send(found->second);
      });
    }
    backward(work.scaled(value, i));
    watch.reset();
    for (size_t leaf = 0; leaf < leaves_.size(); ++leaf) {
      if (is_sent[leaf]) continue;
      exchange_&& is_last ? send(leaf) : take_gradient(leaf, number);
    }
  }
  if (exchange_) return share_results(work.results, std::ssize(batches), streams);
  for (size_t leaf = 0; leaf < leaves_.size(); ++leaf) set_grad(leaves_[leaf], sums_[leaf].total(add_gradient));
  return streams;
}

/// Moves the gradient of a leaf, which is that of a batch, to the sum of the leaf's gradients.
void TrainingStep::take_gradient(size_t leaf, int64_t batch) {
  Tensor gradient = grad(leaves_[leaf]);
  zero_grad(leaves_[leaf]);
  if (exchange_) has_gradient_[leaf] = has_gradient_[leaf] || gradient;
  if (options_.order == GradientOrder::tree) {
    sums_[leaf].push({batch, 1, std::move(gradient)}, add_gradient);
  } else if (sums_[leaf].parts().empty()) {
    sums_[leaf].push({batch, 1, std::move(gradient)}, add_gradient);
  } else {
    add_gradient(sums_[leaf].parts()[0].value, gradient);
  }
}

/// Completes the update's losses and gradients with those of the other processes. Returns the largest number of random
/// streams that a batch takes.
uint64_t TrainingStep::share_results(const Tensor& results, int64_t batches, uint64_t streams) {
  const std::vector<Tensor> gradients = exchange_->finish();
  std::vector<double> values = results.to_vector<double>(), mine;
  const auto first = values.begin() + static_cast<std::ptrdiff_t>(rank() * batches);
  mine.assign(first, first + static_cast<std::ptrdiff_t>(batches));
  mine.push_back(static_cast<double>(streams));
  for (const bool has : has_gradient_) mine.push_back(has ? 1 : 0);
  const std::vector<double> all = distributed::all_gather(*options_.group, mine);
  auto next = all.begin();
  for (int other = 0; other < ranks(); ++other) {
    std::copy_n(next, batches, values.begin() + static_cast<std::ptrdiff_t>(other * batches));
    next += static_cast<std::ptrdiff_t>(batches);
    streams = std::max(streams, static_cast<uint64_t>(*next++));
    for (size_t leaf = 0; leaf < leaves_.size(); ++leaf) has_gradient_[leaf] = *next++ != 0 || has_gradient_[leaf];
  }
  copy_values(tensor(values, results.shape()), results);
  for (size_t leaf = 0; leaf < leaves_.size(); ++leaf) {
    if (has_gradient_[leaf]) set_grad(leaves_[leaf], gradients[leaf]);
    has_gradient_[leaf] = false;
  }
  return streams;
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
    step.values = empty({std::ssize(tokens_) + 1}, {DType::f64, device_});
  }
  return step;
}

/// Copies everything in which this step differs from others of the same shapes to the device.
void TrainingStep::upload(const Known& step, const std::vector<MicroBatch>& batches, const Rng& rng) {
  const std::vector<double> rates = updater_.rates(), parts = shares();
  const Layout layout(batches, std::ssize(rates));
  numbers_.assign(static_cast<size_t>(layout.size), 0);
  const auto at = [&](int64_t place) { return numbers_.begin() + static_cast<std::ptrdiff_t>(place); };
  const auto bits = [](double value) { return std::bit_cast<int64_t>(value); };
  *at(Layout::kStream) = static_cast<int64_t>(rng.next);
  std::ranges::transform(rates, at(Layout::kRates), bits);
  std::ranges::transform(parts, at(layout.shares), bits);
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
  const Rng rng{seed, 0, static_cast<const uint64_t*>(step.buffer.raw()) + Layout::kStream};
  std::vector<std::vector<Tensor>> inputs;
  size_t next = 0;
  for (const MicroBatch& batch : batches) {
    inputs.emplace_back();
    for (const BatchInput& input : batch.inputs) {
      inputs.back().push_back(part(step.buffer, DType::i64, input.values.shape(), layout.inputs[next++]));
    }
  }
  const auto scaled = [&](const Tensor& value, size_t i) {
    const Tensor share = part(step.buffer, DType::f64, {}, layout.shares + static_cast<int64_t>(i));
    return value * to(share, value.dtype());
  };
  const uint64_t streams = compute_gradients(batches, rng, {[&](size_t i) { return inputs[i]; }, scaled, step.values});
  const Tensor squares = squared_grad_norm(parameters_);
  put_value(squares, step.values, std::ssize(tokens_));
  updater_.step({squares, options_.max_norm}, part(step.buffer, DType::f64, {rates}, Layout::kRates));
  zero_grads();
  return streams;
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
