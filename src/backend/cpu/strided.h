#pragma once

#include <cstddef>
#include <utility>

#include "attend/base/threads.h"
#include "attend/base/view.h"

namespace attend::cpu {

/// Calls f with a value of the C++ type of `dtype`.
template <class F>
void with_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f(float{});
    case DType::f64:
      return f(double{});
    case DType::f16:
      return f(Float16{});
    case DType::bf16:
      return f(BFloat16{});
    case DType::i64:
      return f(int64_t{});
    case DType::i32:
      return f(int32_t{});
    case DType::i16:
      return f(int16_t{});
    case DType::i8:
      return f(int8_t{});
    case DType::u8:
      return f(uint8_t{});
    case DType::boolean:
      return f(bool{});
  }
}

/// Throws ShapeError, which names `kernel`, unless `dtype` is f32 or f64.
inline void check_float(DType dtype, const char* kernel) {
  require<ShapeError>(dtype == DType::f32 || dtype == DType::f64, kernel, ": expected f32 or f64, got ", dtype);
}

/// Calls f with a value of the C++ type of `dtype`. Throws as check_float() does.
template <class F>
void with_float(DType dtype, const char* kernel, F&& f) {
  check_float(dtype, kernel);
  dtype == DType::f32 ? f(float{}) : f(double{});
}

/// Elements per task of elementwise work: enough tasks to share, large enough to amortise the scheduling overhead.
inline constexpr int64_t kGrain = 16384;

/// The axes of N operands, merged where all operands are evenly spaced, so that most work is one long inner loop.
template <size_t N>
struct Loop {
  int64_t outer = 1;  ///< product of all but the last axis
  int64_t inner = 1;
  Shape shape;                       ///< after merging; the last axis is `inner`
  std::array<Strides, N> strides{};  ///< of each operand, after merging

  Loop(const Shape& full, const std::array<Strides, N>& full_strides) {
    for (int64_t axis = 0; axis < full.rank(); ++axis) {
      if (full[axis] == 1) continue;
      if (shape.rank() > 0 && merges(full[axis], full_strides, axis)) {
        shape[shape.rank() - 1] *= full[axis];
        for (size_t n = 0; n < N; ++n) strides[n][shape.rank() - 1] = full_strides[n][axis];
      } else {
        shape.push_back(full[axis]);
        for (size_t n = 0; n < N; ++n) strides[n].push_back(full_strides[n][axis]);
      }
    }
    if (shape.rank() == 0) {
      shape.push_back(full.numel());
      for (auto& s : strides) s.push_back(1);
    }
    inner = shape[shape.rank() - 1];
    for (int64_t axis = 0; axis + 1 < shape.rank(); ++axis) outer *= shape[axis];
  }

  int64_t inner_stride(size_t n) const { return strides[n][shape.rank() - 1]; }

  /// Element offsets of each operand at outer position `index`.
  std::array<int64_t, N> offsets(int64_t index) const {
    std::array<int64_t, N> result{};
    for (int64_t axis = shape.rank() - 2; axis >= 0; --axis) {
      const int64_t place = index % shape[axis];
      index /= shape[axis];
      for (size_t n = 0; n < N; ++n) result[n] += place * strides[n][axis];
    }
    return result;
  }

  /// Calls body(offsets, begin, end) over pieces of the inner loop, in parallel.
  template <class F>
  void run(F&& body) const {
    if (outer == 0 || inner == 0) return;
    if (inner >= kGrain) {
      const int64_t pieces = (inner + kGrain - 1) / kGrain;
      parallel_for(outer * pieces, [&](int64_t task) {
        const int64_t begin = task % pieces * kGrain;
        body(offsets(task / pieces), begin, std::min(begin + kGrain, inner));
      });
    } else {
      parallel_ranges(outer, std::max<int64_t>(1, kGrain / inner), [&](int64_t begin, int64_t end) {
        for (int64_t index = begin; index < end; ++index) body(offsets(index), 0, inner);
      });
    }
  }

 private:
  bool merges(int64_t size, const std::array<Strides, N>& full_strides, int64_t axis) const {
    for (size_t n = 0; n < N; ++n) {
      if (strides[n][shape.rank() - 1] != full_strides[n][axis] * size) return false;
    }
    return true;
  }
};

}  // namespace attend::cpu
