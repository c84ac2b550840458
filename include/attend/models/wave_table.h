#pragma once

#include <cstdint>
#include <memory>

#include "attend/tensor/tensor.h"

namespace attend {

/// The sines and cosines of sinusoidal_positions, computed as far as texts reach: a config may promise a context of
/// millions of tokens, of which a table would need gigabytes. Copies share what was computed. Safe to use from many
/// threads.
class WaveTable {
 public:
  WaveTable() = default;  ///< none: the model knows positions in another way
  /// With `in_halves`, all sines come first, then all cosines, as Marian has them; else they are interleaved.
  explicit WaveTable(int64_t dim, bool in_halves = false);
  /// These rows [length, dim] and no more.
  explicit WaveTable(Tensor rows);

  explicit operator bool() const { return state_ != nullptr; }
  /// The first rows: [length, dim] with length ≥ count. Throws ShapeError where fixed rows do not suffice.
  Tensor rows(int64_t count) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace attend
