#pragma once

#include <cstdint>
#include <memory>

#include "attend/tensor/tensor.h"

namespace attend {

/// A table of sinusoidal_positions that grows with the longest text seen. A full table for a config with a context of
/// millions of tokens would need gigabytes. Copies share the table. Thread-safe.
class WaveTable {
 public:
  WaveTable() = default;  ///< no table: the model has another position encoding
  /// With `in_halves`, all sines come first, then all cosines, as in Marian; else they are interleaved.
  explicit WaveTable(int64_t dim, bool in_halves = false);
  /// A fixed table [length, dim].
  explicit WaveTable(Tensor rows);

  explicit operator bool() const { return state_ != nullptr; }
  /// The table with at least `count` rows: [length, dim], length ≥ count. Throws ShapeError if a fixed table is
  /// shorter.
  Tensor rows(int64_t count) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace attend
