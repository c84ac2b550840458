#pragma once

#include <algorithm>

#include "backend/cpu/strided.h"

namespace attend::cpu {

/// A run of consecutive elements within a row of a matrix.
struct Piece {
  int64_t row = 0, col = 0;
  int64_t count = 0;
  int64_t first = 0;  ///< index of its first element: row · cols + col

  template <class T, class Pointer>
  auto of(const BasicRows<Pointer>& matrix) const {
    using Result = std::conditional_t<std::is_const_v<std::remove_pointer_t<Pointer>>, const T*, T*>;
    return static_cast<Result>(matrix.data) + row * matrix.stride + col;
  }
};

/// Runs elementwise work on rows × cols in parallel pieces of at most kGrain elements. If `dense`, rows have no gaps
/// and are treated as one row.
template <class F>
void for_each_piece(int64_t rows, int64_t cols, bool dense, F&& f) {
  if (dense) {
    parallel_ranges(rows * cols, kGrain,
                    [&](int64_t begin, int64_t end) { f(Piece{.col = begin, .count = end - begin, .first = begin}); });
    return;
  }
  const int64_t per_row = (cols + kGrain - 1) / kGrain;
  parallel_for(rows * per_row, [&](int64_t task) {
    const int64_t row = task / per_row, col = task % per_row * kGrain;
    f(Piece{.row = row, .col = col, .count = std::min(kGrain, cols - col), .first = row * cols + col});
  });
}

/// Calls f(row) for every row in parallel. One task takes several short rows.
template <class F>
void for_each_row(int64_t rows, int64_t cols, F&& f) {
  parallel_ranges(rows, kGrain / std::max<int64_t>(1, cols), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) f(row);
  });
}

template <class T, class Pointer>
auto row_of(const BasicRows<Pointer>& matrix, int64_t row) {
  return Piece{.row = row}.of<T>(matrix);
}

}  // namespace attend::cpu
