#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <span>

#include "attend/base/error.h"

namespace attend {

inline constexpr int64_t kMaxRank = 8;

/// A list of at most kMaxRank sizes or strides, stored inline. Prints as `[2, 3, 4]`.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const int64_t> dims);

  int64_t rank() const { return rank_; }
  int64_t operator[](int64_t axis) const { return dims_[static_cast<size_t>(axis)]; }
  int64_t& operator[](int64_t axis) { return dims_[static_cast<size_t>(axis)]; }
  const int64_t* begin() const { return dims_.data(); }
  const int64_t* end() const { return dims_.data() + rank_; }
  std::span<const int64_t> span() const { return {begin(), end()}; }

  /// The number of elements; 1 for rank 0.
  int64_t numel() const {
    int64_t count = 1;
    for (int64_t dim : *this) count *= dim;
    return count;
  }

  /// Maps an axis in -rank … rank-1 to 0 … rank-1; negative axes count from the end. Throws a ShapeError that names
  /// `op` if the axis is out of range.
  int64_t axis(int64_t axis, const char* op) const {
    if (axis < -rank_ || axis >= rank_) [[unlikely]]
      throw_no_axis(axis, op);
    return axis < 0 ? axis + rank_ : axis;
  }

  void push_back(int64_t dim);

  /// A copy with the last axis replaced.
  Shape with_last(int64_t dim) const {
    Shape result = *this;
    result[rank_ - 1] = dim;
    return result;
  }

  friend bool operator==(const Shape& a, const Shape& b) { return std::ranges::equal(a, b); }
  friend std::ostream& operator<<(std::ostream& out, const Shape& shape);

 private:
  [[noreturn]] void throw_no_axis(int64_t axis, const char* op) const;

  std::array<int64_t, kMaxRank> dims_{};
  int64_t rank_ = 0;
};

/// Distances between neighbouring elements along each axis, in elements (not bytes). Stride 0 repeats an element, as
/// broadcasting does.
using Strides = Shape;

/// Row-major strides of a dense tensor.
inline Strides contiguous_strides(const Shape& shape) {
  Strides strides = shape;
  int64_t step = 1;
  for (int64_t i = shape.rank() - 1; i >= 0; --i) {
    strides[i] = step;
    step *= std::max<int64_t>(shape[i], 1);
  }
  return strides;
}

/// The shape that two operands broadcast to: axes are aligned at the end, and size 1 stretches. Throws a ShapeError
/// that names `op` if the shapes do not broadcast.
Shape broadcast_shapes(const Shape& a, const Shape& b, const char* op);

}  // namespace attend
