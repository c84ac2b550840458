#pragma once

#include "attend/nn/forward_pass.h"
#include "attend/nn/linear.h"

namespace attend {

/// The function that computes the next state from an input and the current state. The order of the gates is PyTorch's.
enum class CellKind {
  tanh,  ///< h' = tanh(W x + U h)
  relu,  ///< h' = max(0, W x + U h)
  gru,   ///< gates r, z, n: h' = (1 − z) · n + z · h, n = tanh(W_n x + r · U_n h) (Cho et al. 2014)
  lstm   ///< gates i, f, g, o: c' = f · c + i · g, h' = o · tanh(c') (Hochreiter and Schmidhuber 1997)
};

struct RecurrentConfig {
  int64_t input = 0;      ///< width of the input
  int64_t state_dim = 0;  ///< width of the state
  int64_t layers = 1;
  bool bidirectional = false;  ///< each layer reads in both directions; outputs are concatenated, forward first
  bool bias = true;
  double dropout = 0;  ///< probability of dropping a value between layers
  CellKind cell = CellKind::tanh;
};

/// The weights of one direction of one layer, all gates stacked: input [gates · state_dim, input] and hidden [gates ·
/// state_dim, state_dim].
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

/// h and c are [layers · directions, batch, state_dim], with the two directions of a layer next to each other. An empty
/// tensor means zeros. Only LSTM has c. States are f32 also if x has 16 bits.
struct RecurrentState {
  Tensor h, c;
};

struct RecurrentInputs {
  Tensor x;                ///< [batch, length, input], length >= 1
  RecurrentState state{};  ///< initial state
  Tensor lengths{};        ///< i64 [batch]: steps from lengths[b] on are padding
};

struct RecurrentResult {
  Tensor output;         ///< [batch, length, directions · state_dim], 0 on padding
  RecurrentState state;  ///< state after the last step that is not padding; of the backward direction, after the first
};

/// Layers of recurrent cells over a batch of sequences. Each direction of a layer is one node of the recorded graph
/// that does its own backpropagation through time: the weights' gradient is one matrix product, not one for each step.
struct Recurrent {
  RecurrentConfig config;
  std::vector<RecurrentLayer> layers;

  /// Initial values are uniform within ±1/√state_dim, as in PyTorch. Throws ShapeError if a size is below 1.
  static Recurrent create(const RecurrentConfig& config, Rng& rng);
  RecurrentResult forward(const RecurrentInputs& inputs, const ForwardPass& pass = {}) const;
  /// One step of a decoder: maps x [batch, input] to the output [batch, state_dim]. Throws ShapeError if bidirectional.
  RecurrentResult step(const Tensor& x, const RecurrentState& state = {}, const ForwardPass& pass = {}) const;

  static void fields(auto&& visit) { visit("layers", &Recurrent::layers); }
};

struct RNN : Recurrent {
  /// config.cell must be tanh or relu.
  static RNN create(const RecurrentConfig& config, Rng& rng);
};
struct GRU : Recurrent {
  static GRU create(RecurrentConfig config, Rng& rng);
};
struct LSTM : Recurrent {
  static LSTM create(RecurrentConfig config, Rng& rng);
};

}  // namespace attend
