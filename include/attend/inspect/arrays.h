#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attend/base/shape.h"
#include "attend/inspect/run.h"

// The numbers of a run by name: what the page draws, and what docs/inspect-format.md describes.
namespace attend {

struct Array {
  Shape shape;
  std::vector<float> values;
};

/// A part of a matrix; an end of none is the last.
struct ArrayPart {
  int64_t first_row = 0, first_column = 0;
  std::optional<int64_t> end_row, end_column;
};

/// The most numbers given at once.
constexpr int64_t kMostArrayValues = int64_t{1} << 24;

/// Computed now, in time and memory of what is asked for. With attention A, head H (of queries) of the run:
///   weights/A/H     [queries, keys]      the weights the pass used
///   scores/A/H      [queries, keys]      before the softmax: scaled, biased; −∞ where a query may not look
///   q/A/H, k/A/H, v/A/H                  [queries, head_dim], [keys, head_dim], [keys, value_dim]
///   additive/A      [hidden]             v of Bahdanau's score, where q is W s and k is U h
///   average/A       [queries, keys]      the mean over heads
///   values/NAME     [rows, dim]          a hidden state, NAME as in Run::values
///   thumbnails/S/A  [heads, ≤ S, ≤ S]    weights, each cell the largest of those it stands for
///   tile/A/H/L/R/C  at most 256 × 256 cells of the matrix at level L, where a cell is the largest of 2^L × 2^L
///                   weights: cells 256 R … and 256 C …
///   rollout/STACK   [queries, keys]      see attend/inspect/heads.h
/// `part` chooses rows and columns of those that are matrices. Throws ShapeError for a name or a part that is not
/// there, and for more than kMostArrayValues numbers.
Array run_array(const Run& run, std::string_view name, const ArrayPart& part = {});

/// The names of a whole run's arrays, the most telling first; no tiles.
std::vector<std::string> array_names(const Run& run);

/// How many numbers an array has, without computing it.
int64_t array_size(const Run& run, std::string_view name);

}  // namespace attend
