#pragma once

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "backend/cpu/strided.h"

namespace attend::cpu {

inline constexpr int64_t kRun = 4096;          ///< elements added in their own type; totals are added in double
inline constexpr int64_t kRowsPerPiece = 128;  ///< the same limit when rows are added to rows
inline constexpr int64_t kColumns = 1024;      ///< columns of one task: its row of totals stays in L1

struct Range {
  int64_t begin = 0, end = 0;
  int64_t count() const { return end - begin; }
};
/// Part number `index` of [0, total), cut into parts of `size` elements.
inline Range part(int64_t total, int64_t size, int64_t index) {
  return {index * size, std::min((index + 1) * size, total)};
}

/// The axes of a sum, divided into kept and reduced axes. Each group is ordered from the largest stride to the smallest
/// and merged where possible. Results are numbered in the order of the kept loop, the elements of a result in the order
/// of the reduced loop.
struct Reduction {
  Loop<2> kept;     ///< strides of x and of y
  Loop<1> reduced;  ///< strides of x

  Reduction(const ConstView& x, const View& y)
      : Reduction(x, y, axes_by_stride(x, y, false), axes_by_stride(x, y, true)) {}

  int64_t kept_count() const { return kept.outer * kept.inner; }
  int64_t reduced_count() const { return reduced.outer * reduced.inner; }
  /// Element offset of result number `index` in x (operand 0) or y (1).
  int64_t kept_offset(int64_t index, size_t operand) const {
    return kept.offsets(index / kept.inner)[operand] + index % kept.inner * kept.inner_stride(operand);
  }
  int64_t reduced_offset(int64_t index) const {
    return reduced.offsets(index / reduced.inner)[0] + index % reduced.inner * reduced.inner_stride(0);
  }

  /// True if neighbours in memory belong to the same result, or if there is only one result.
  bool runs_are_summed() const {
    return kept.inner == 1 || (reduced.inner > 1 && std::abs(reduced.inner_stride(0)) < std::abs(kept.inner_stride(0)));
  }

  // The elements of one result are cut into runs of at most kRun, and kRunsPerPiece runs form a piece of parallel work.
  static constexpr int64_t kRunsPerPiece = 16;
  int64_t runs_per_line() const { return (reduced.inner + kRun - 1) / kRun; }
  int64_t lines_per_piece() const { return std::max<int64_t>(1, kRun * kRunsPerPiece / reduced.inner); }
  bool lines_are_short() const { return reduced.inner <= kRun * kRunsPerPiece; }
  int64_t piece_count() const {
    if (lines_are_short()) return (reduced.outer + lines_per_piece() - 1) / lines_per_piece();
    return reduced.outer * ((runs_per_line() + kRunsPerPiece - 1) / kRunsPerPiece);
  }
  /// Calls body(offset, count) for each run of a piece, in order.
  template <class F>
  void for_runs(int64_t piece, F&& body) const {
    const int64_t per_line = lines_are_short() ? 1 : (runs_per_line() + kRunsPerPiece - 1) / kRunsPerPiece;
    const Range lines = lines_are_short() ? part(reduced.outer, lines_per_piece(), piece)
                                          : Range{piece / per_line, piece / per_line + 1};
    const Range runs =
        lines_are_short() ? Range{0, runs_per_line()} : part(runs_per_line(), kRunsPerPiece, piece % per_line);
    for (int64_t line = lines.begin; line < lines.end; ++line) {
      const int64_t start = reduced.offsets(line)[0];
      for (int64_t run = runs.begin; run < runs.end; ++run) {
        const Range elements = part(reduced.inner, kRun, run);
        body(start + elements.begin * reduced.inner_stride(0), elements.count());
      }
    }
  }

 private:
  Reduction(const ConstView& x, const View& y, const std::vector<int64_t>& kept_axes,
            const std::vector<int64_t>& reduced_axes)
      : kept(pick(x.shape, kept_axes), {pick(x.strides, kept_axes), pick(y.strides, kept_axes)}),
        reduced(pick(x.shape, reduced_axes), {pick(x.strides, reduced_axes)}) {}

  static std::vector<int64_t> axes_by_stride(const ConstView& x, const View& y, bool summed) {
    std::vector<int64_t> axes;
    for (int64_t axis = 0; axis < x.rank(); ++axis) {
      if ((x.shape[axis] != y.shape[axis]) == summed) axes.push_back(axis);
    }
    std::ranges::stable_sort(axes, std::greater<>{}, [&](int64_t axis) { return std::abs(x.strides[axis]); });
    return axes;
  }
  static Shape pick(const Shape& values, const std::vector<int64_t>& axes) {
    Shape result;
    for (int64_t axis : axes) result.push_back(values[axis]);
    return result;
  }
};

}  // namespace attend::cpu
