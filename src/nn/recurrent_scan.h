#pragma once

#include <vector>

#include "attend/nn/recurrent.h"

// One direction of one recurrent layer over all steps.
namespace attend {

/// Values a cell carries from step to step: h, and for LSTM c behind it.
inline int64_t state_width(CellKind kind, int64_t state_dim) {
  return kind == CellKind::lstm ? 2 * state_dim : state_dim;
}
inline int64_t gate_count(CellKind kind) { return kind == CellKind::lstm ? 4 : kind == CellKind::gru ? 3 : 1; }

/// The next state [batch, state_width] from W x + b and U h + b (each [batch, gates · state_dim]) and the state.
Tensor cell(CellKind kind, const Tensor& from_input, const Tensor& from_hidden, const Tensor& state);

struct ScanOptions {
  CellKind kind = CellKind::tanh;
  bool reverse = false;
  /// For each step, 1 where a sequence has it and 0 where it is padding, [batch, 1]; empty: all have it.
  std::vector<Tensor> alive;
};
/// All states [batch, length, state_width] from W x + b [batch, length, gates · state_dim]; a sequence's state stands
/// still on padding. Differentiable in everything.
Tensor scan(const Tensor& from_input, const Linear& hidden, const Tensor& initial, const ScanOptions& options);

}  // namespace attend
