#pragma once

#include <vector>

#include "attend/nn/recurrent.h"

// One direction of one recurrent layer over all steps.
namespace attend {

/// Width of a packed state: h, followed by c for LSTM.
inline int64_t state_width(CellKind kind, int64_t state_dim) {
  return kind == CellKind::lstm ? 2 * state_dim : state_dim;
}
inline int64_t gate_count(CellKind kind) { return kind == CellKind::lstm ? 4 : kind == CellKind::gru ? 3 : 1; }

/// Computes the next state [batch, state_width] from W x + b and U h + b (each [batch, gates · state_dim]) and the
/// current state.
Tensor cell(CellKind kind, const Tensor& from_input, const Tensor& from_hidden, const Tensor& state);

struct ScanOptions {
  CellKind kind = CellKind::tanh;
  bool reverse = false;
  /// For each step [batch, 1]: 1 for sequences that have the step, 0 for those where it is padding. An empty tensor
  /// means that all sequences have the step.
  std::vector<Tensor> alive;
};
/// Computes all states [batch, length, state_width] from W x + b [batch, length, gates · state_dim]. The state of a
/// sequence does not change on padding. Differentiable with respect to all tensors.
Tensor scan(const Tensor& from_input, const Linear& hidden, const Tensor& initial, const ScanOptions& options);

}  // namespace attend
