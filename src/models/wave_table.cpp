#include "attend/models/wave_table.h"

#include <algorithm>
#include <mutex>

#include "attend/autograd/autograd.h"
#include "attend/ops/position.h"
#include "attend/ops/shape.h"

namespace attend {
namespace {

constexpr int64_t kFirstRows = 64;

/// Reorders the columns of a table: all sines first, then all cosines.
Tensor sines_first(const Tensor& table) {
  const int64_t length = table.dim(0), dim = table.dim(1);
  const Tensor sines = table.as_strided({length, (dim + 1) / 2}, {dim, 2}, 0);
  return dim > 1 ? concat({sines, table.as_strided({length, dim / 2}, {dim, 2}, 1)}, 1) : table;
}

}  // namespace

struct WaveTable::State {
  std::mutex mutex;
  int64_t dim = 0;  // 0: a fixed table
  bool in_halves = false;
  Tensor rows;
};

WaveTable::WaveTable(int64_t dim, bool in_halves) : state_(std::make_shared<State>()) {
  require<ShapeError>(dim >= 1, "positions: dim must be at least 1, got ", dim);
  state_->dim = dim;
  state_->in_halves = in_halves;
}

WaveTable::WaveTable(Tensor rows) : state_(std::make_shared<State>()) { state_->rows = std::move(rows); }

Tensor WaveTable::rows(int64_t count) const {
  const std::lock_guard lock(state_->mutex);
  Tensor& rows = state_->rows;
  const int64_t held = rows ? rows.dim(0) : 0;
  if (rows && held >= count) return rows;
  require<ShapeError>(state_->dim > 0, "positions: expected at most ", held, " tokens, got ", count);
  const NoGrad scope;
  rows = sinusoidal_positions(std::max({count, 2 * held, kFirstRows}), state_->dim);
  if (state_->in_halves) rows = sines_first(rows);
  return rows;
}

}  // namespace attend
