#include "attend/nn/recurrent.h"

#include <cmath>

#include "attend/nn/init.h"
#include "attend/nn/masks.h"
#include "attend/ops/arithmetic.h"
#include "attend/ops/cast.h"
#include "attend/ops/padding.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"
#include "nn/recurrent_scan.h"

namespace attend {
namespace {

int64_t directions(const RecurrentConfig& config) { return config.bidirectional ? 2 : 1; }

RecurrentWeights create_weights(const RecurrentConfig& config, int64_t input, Rng& rng) {
  const double bound = 1 / std::sqrt(static_cast<double>(config.state_dim));
  const int64_t gates = gate_count(config.cell) * config.state_dim;
  RecurrentWeights result;
  result.input.weight = uniform_parameter({gates, input}, bound, rng);
  result.hidden.weight = uniform_parameter({gates, config.state_dim}, bound, rng);
  if (config.bias) {
    result.input.bias = uniform_parameter({gates}, bound, rng);
    result.hidden.bias = uniform_parameter({gates}, bound, rng);
  }
  return result;
}

void check_state(const RecurrentConfig& config, const RecurrentState& state, int64_t batch) {
  const Shape expected{config.layers * directions(config), batch, config.state_dim};
  const auto check = [&](const Tensor& part, const char* name) {
    require<ShapeError>(!part || part.shape() == expected, "Recurrent: expected state ", name, " of shape ", expected,
                        ", got ", part.shape());
  };
  check(state.h, "h");
  check(state.c, "c");
  require<ShapeError>(!state.c || config.cell == CellKind::lstm, "Recurrent: only LSTM cells have a state c");
}

/// The dtype of states: f32 if x has 16 bits, so that rounding errors do not add up over the steps.
DType state_dtype(const Tensor& x) { return size_of(x.dtype()) == 2 ? DType::f32 : x.dtype(); }

/// The packed initial state [batch, state_width] of one direction of one layer.
Tensor packed(const RecurrentConfig& config, const RecurrentState& state, int64_t index, const Tensor& x) {
  const auto part = [&](const Tensor& all) {
    return all ? cast(select(all, 0, index), state_dtype(x))
               : zeros({x.dim(0), config.state_dim}, {state_dtype(x), x.device()});
  };
  return config.cell == CellKind::lstm ? concat({part(state.h), part(state.c)}, 1) : part(state.h);
}

/// Splits the packed states [batch, state_width] of all layers and directions into h and c.
RecurrentState unpacked(const RecurrentConfig& config, const std::vector<Tensor>& states) {
  std::vector<Tensor> h, c;
  for (const Tensor& state : states) {
    h.push_back(slice(state, 1, 0, config.state_dim));
    if (config.cell == CellKind::lstm) c.push_back(slice(state, 1, config.state_dim, 2 * config.state_dim));
  }
  return {stack(h, 0), c.empty() ? Tensor{} : stack(c, 0)};
}

/// For each step [batch, 1]: 1 for sequences that have the step, 0 for the others. Empty tensors if all sequences have
/// it, unless the lengths are on a GPU, from which nothing is read back.
std::vector<Tensor> alive_at(const Tensor& real, int64_t length, const Tensor& lengths) {
  int64_t shortest = 0;
  if (lengths.device() == kCpu) {
    shortest = length;
    for (const int64_t count : lengths.to_vector<int64_t>()) shortest = std::min(shortest, count);
  }
  std::vector<Tensor> result(static_cast<size_t>(length));
  for (int64_t t = shortest; t < length; ++t) result[static_cast<size_t>(t)] = select(real, 1, t);
  return result;
}

}  // namespace

Recurrent Recurrent::create(const RecurrentConfig& config, Rng& rng) {
  require<ShapeError>(config.input >= 1 && config.state_dim >= 1 && config.layers >= 1,
                      "Recurrent: input, state_dim and layers must be at least 1, got ", config.input, ", ",
                      config.state_dim, " and ", config.layers);
  Recurrent result;
  result.config = config;
  for (int64_t i = 0; i < config.layers; ++i) {
    const int64_t input = i == 0 ? config.input : directions(config) * config.state_dim;
    RecurrentLayer layer;
    layer.forward = create_weights(config, input, rng);
    if (config.bidirectional) layer.backward = create_weights(config, input, rng);
    result.layers.push_back(std::move(layer));
  }
  return result;
}

RecurrentResult Recurrent::forward(const RecurrentInputs& inputs, const ForwardPass& pass) const {
  const Tensor& x = inputs.x;
  require<ShapeError>(x.rank() == 3 && x.dim(2) == config.input && x.dim(1) >= 1,
                      "Recurrent: expected x of shape [batch, length >= 1, ", config.input, "], got ", x.shape());
  require<ShapeError>(!inputs.lengths || inputs.lengths.shape() == Shape{x.dim(0)},
                      "Recurrent: expected lengths of shape [", x.dim(0), "], got ", inputs.lengths.shape());
  check_state(config, inputs.state, x.dim(0));
  const int64_t length = x.dim(1);
  Tensor real;  // [batch, length, 1]: 1 on real steps, 0 on padding
  ScanOptions options{.kind = config.cell};
  if (inputs.lengths) {
    real = to(unsqueeze(to(length_mask(inputs.lengths, length), state_dtype(x)), 2), x.device());
    options.alive = alive_at(real, length, inputs.lengths);
  }

  Tensor y = inputs.lengths ? zero_padding(x, inputs.lengths) : x;  // padding may contain NaN
  std::vector<Tensor> last;
  const auto run = [&](const RecurrentWeights& weights, bool reverse) {
    options.reverse = reverse;
    const Tensor initial = packed(config, inputs.state, static_cast<int64_t>(last.size()), x);
    const Tensor states = scan(cast(weights.input.forward(y), initial.dtype()), weights.hidden, initial, options);
    last.push_back(select(states, 1, reverse ? 0 : length - 1));
    return slice(states, 2, 0, config.state_dim);
  };
  for (size_t i = 0; i < layers.size(); ++i) {
    if (i > 0) y = drop(y, config.dropout, pass);
    Tensor joined = run(layers[i].forward, false);
    if (layers[i].backward) joined = concat({joined, run(*layers[i].backward, true)}, 2);
    y = cast(real ? joined * real : joined, x.dtype());
  }
  return {y, unpacked(config, last)};
}

RecurrentResult Recurrent::step(const Tensor& x, const RecurrentState& state, const ForwardPass& pass) const {
  require<ShapeError>(!config.bidirectional, "Recurrent: step() needs a network that is not bidirectional");
  require<ShapeError>(x.rank() == 2 && x.dim(1) == config.input, "Recurrent: expected x of shape [batch, ",
                      config.input, "] for a step, got ", x.shape());
  check_state(config, state, x.dim(0));
  Tensor y = x;
  std::vector<Tensor> next;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (i > 0) y = drop(y, config.dropout, pass);
    const Tensor before = packed(config, state, static_cast<int64_t>(i), x);
    const RecurrentWeights& weights = layers[i].forward;
    const Tensor hidden = weights.hidden.forward(slice(before, 1, 0, config.state_dim));
    next.push_back(
        cell(config.cell, cast(weights.input.forward(y), before.dtype()), cast(hidden, before.dtype()), before));
    y = cast(slice(next.back(), 1, 0, config.state_dim), x.dtype());
  }
  return {y, unpacked(config, next)};
}

RNN RNN::create(const RecurrentConfig& config, Rng& rng) {
  require<ShapeError>(config.cell == CellKind::tanh || config.cell == CellKind::relu, "RNN: cell must be tanh or relu");
  return {Recurrent::create(config, rng)};
}

GRU GRU::create(RecurrentConfig config, Rng& rng) {
  config.cell = CellKind::gru;
  return {Recurrent::create(config, rng)};
}

LSTM LSTM::create(RecurrentConfig config, Rng& rng) {
  config.cell = CellKind::lstm;
  return {Recurrent::create(config, rng)};
}

}  // namespace attend
