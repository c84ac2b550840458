#pragma once

#include "attend/nn/forward_pass.h"
#include "attend/nn/linear.h"

namespace attend {

/// How a recurrent layer turns an input and its state into the next state. The gates' order is PyTorch's.
enum class CellKind {
  tanh,  ///< h' = tanh(W x + U h)
  relu,  ///< h' = max(0, W x + U h)
  gru,   ///< gates r, z, n: h' = (1 − z) · n + z · h, n = tanh(W_n x + r · U_n h) (Cho et al. 2014)
  lstm   ///< gates i, f, g, o: c' = f · c + i · g, h' = o · tanh(c') (Hochreiter and Schmidhuber 1997)
};

struct RecurrentConfig {
  int64_t input = 0;
  int64_t state_dim = 0;
  int64_t layers = 1;
  bool bidirectional = false;  ///< each layer reads both ways; outputs are joined, forward first
  bool bias = true;
  double dropout = 0;  ///< between layers
  CellKind cell = CellKind::tanh;
};

/// One direction of one layer: all gates stacked, input [gates · state_dim, input], hidden [gates · state_dim,
/// state_dim].
struct RecurrentWeights {
  Linear input, hidden;
  static void fields(auto&& visit) {
    visit("input", &RecurrentWeights::input);
    visit("hidden", &RecurrentWeights::hidden);
  }
};

struct RecurrentLayer {
  RecurrentWeights forward;
  std::optional<RecurrentWeights> backward;
  static void fields(auto&& visit) {
    visit("forward", &RecurrentLayer::forward);
    visit("backward", &RecurrentLayer::backward);
  }
};

/// [layers · directions, batch, state_dim], a layer's two directions next to each other. Empty = zeros; c only for
/// LSTM.
struct RecurrentState {
  Tensor h, c;
};

struct RecurrentInputs {
  Tensor x;                ///< [batch, length, input], length >= 1
  RecurrentState state{};  ///< to start from
  Tensor lengths{};        ///< i64 [batch]: steps from lengths[b] on are padding
};

/// `output` is [batch, length, directions · state_dim], 0 on padding; `state` the one after each sequence's last real
/// step (its first, backwards).
struct RecurrentResult {
  Tensor output;
  RecurrentState state;
};

/// Layers of recurrent cells over a batch of sequences. A layer is one node of the recorded graph: it runs back through
/// time by itself, so that the weights' gradients are one matrix product and not one for each step.
struct Recurrent {
  RecurrentConfig config;
  std::vector<RecurrentLayer> layers;

  /// Everything even within ±1/√state_dim, as in PyTorch.
  static Recurrent create(const RecurrentConfig& config, Rng& rng);
  RecurrentResult forward(const RecurrentInputs& inputs, const ForwardPass& pass = {}) const;
  /// One step of a decoder: x [batch, input] gives output [batch, state_dim]. Throws ShapeError if bidirectional.
  RecurrentResult step(const Tensor& x, const RecurrentState& state = {}, const ForwardPass& pass = {}) const;

  static void fields(auto&& visit) { visit("layers", &Recurrent::layers); }
};

struct RNN : Recurrent {
  /// config.cell chooses tanh or relu.
  static RNN create(const RecurrentConfig& config, Rng& rng);
};
struct GRU : Recurrent {
  static GRU create(RecurrentConfig config, Rng& rng);
};
struct LSTM : Recurrent {
  static LSTM create(RecurrentConfig config, Rng& rng);
};

}  // namespace attend
