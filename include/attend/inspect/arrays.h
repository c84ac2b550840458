#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attend/base/shape.h"
#include "attend/inspect/run.h"

// The arrays of a run by name, as docs/inspect-format.md describes them. The web page draws them.
namespace attend {

struct Array {
  Shape shape;
  std::vector<float> values;
};

/// A range of rows and columns of a matrix. Without an end, the range extends to the last row or column.
struct ArrayPart {
  int64_t first_row = 0, first_column = 0;
  std::optional<int64_t> end_row, end_column;
};

/// Maximum number of values in a result.
constexpr int64_t kMostArrayValues = int64_t{1} << 24;

/// Computes an array of a run. Time and memory depend only on the size of the requested part. A is the index of an
/// attention in the run, and H the index of a query head:
///   weights/A/H     [queries, keys]      attention weights of the forward pass
///   scores/A/H      [queries, keys]      scores before the softmax, with scale and bias; −∞ for masked keys
///   q/A/H, k/A/H, v/A/H                  [queries, head_dim], [keys, head_dim], [keys, value_dim]
///   additive/A      [state_dim]          v of the additive score, where q is W s and k is U h
///   average/A       [queries, keys]      weights averaged over the heads
///   values/NAME     [rows, dim]          a hidden state, NAME as in Run::values
///   parameters/NAME [dim]                a bias or a norm's weight, NAME as in Run::parameters
///   thumbnails/S/A  [heads, ≤ S, ≤ S]    weights; each cell is the maximum of the weights it covers
///   tile/A/H/L/R/C  at most 256 × 256 cells of the matrix at level L, where a cell is the maximum of 2^L × 2^L
///                   weights; the first cell is (256 R, 256 C)
///   rollout/STACK   [queries, keys]      see attend/inspect/heads.h
/// `part` selects rows and columns of a matrix. Throws ShapeError if the name or the part does not exist, or the result
/// has more than kMostArrayValues values.
Array run_array(const Run& run, std::string_view name, const ArrayPart& part = {});

/// The names of all arrays of a run except tiles, in order of importance.
std::vector<std::string> array_names(const Run& run);

/// Number of values of an array. Does not compute the array.
int64_t array_size(const Run& run, std::string_view name);

}  // namespace attend
