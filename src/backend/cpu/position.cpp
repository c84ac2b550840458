#include <cmath>

#include "backend/cpu/cpu.h"
#include "backend/cpu/dispatch.h"
#include "backend/cpu/memory.h"
#include "backend/cpu/row_pieces.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/position.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
#include "backend/cpu/sweep-inl.h"
#include "backend/cpu/with_float-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace attend::cpu::HWY_NAMESPACE {

/// (a, b) ↦ (a cos − b sin, b cos + a sin) for pairs (i, i + half).
template <class T>
void TurnHalves(const T* x, const T* cosine, const T* sine, T* y, int64_t half) {
  const hn::ScalableTag<T> d;
  Sweep(d, half, [&](auto place) {
    const auto a = place.load(x), b = place.load(x + half), c = place.load(cosine), s = place.load(sine);
    place.store(hn::NegMulAdd(b, s, hn::Mul(a, c)), y);
    place.store(hn::MulAdd(a, s, hn::Mul(b, c)), y + half);
  });
}

/// The same rotation for pairs (2i, 2i + 1).
template <class T>
void TurnNeighbours(const T* x, const T* cosine, const T* sine, T* y, int64_t half) {
  for (int64_t i = 0; i < half; ++i) {
    const T a = x[2 * i], b = x[2 * i + 1];
    y[2 * i] = a * cosine[i] - b * sine[i];
    y[2 * i + 1] = b * cosine[i] + a * sine[i];
  }
}

/// cos and sin of position · frequency, [length, 2, half]. Computed in double, because angles grow with position, and
/// then rounded.
template <class T>
void FillTable(ConstRows frequencies, ConstRows positions, const RotaryOptions& options, int64_t half, int64_t length,
               T* table) {
  const Scratch<double> frequency(half);
  for (int64_t i = 0; i < half; ++i) {
    frequency.data()[i] = frequencies ? static_cast<const double*>(frequencies.data)[i]
                                      : std::pow(options.base, -static_cast<double>(i) / static_cast<double>(half));
  }
  for_each_row(length, half * 16, [&](int64_t row) {
    const int64_t position = positions ? static_cast<const int64_t*>(positions.data)[row] : options.offset + row;
    T* const cosine = table + row * 2 * half;
    T* const sine = cosine + half;
    for (int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(position) * frequency.data()[i];
      cosine[i] = static_cast<T>(std::cos(angle));
      sine[i] = static_cast<T>(options.inverse ? -std::sin(angle) : std::sin(angle));
    }
  });
}

/// Offset of row `index` (all axes but the last, row-major) in a strided view.
template <class Pointer>
int64_t RowOffset(const BasicView<Pointer>& view, int64_t index) {
  int64_t offset = 0;
  for (int64_t axis = view.rank() - 2; axis >= 0; --axis) {
    offset += index % view.shape[axis] * view.strides[axis];
    index /= view.shape[axis];
  }
  return offset;
}

void Rotary(ConstView x, ConstRows frequencies, ConstRows positions, const RotaryOptions& options, View y) {
  WithFloat(y.dtype, "rotary", [&](auto type) {
    using T = decltype(type);
    const int64_t length = x.shape[x.rank() - 2], dim = x.shape[x.rank() - 1];
    if (x.shape.numel() == 0) return;
    const int64_t turned = options.dims > 0 ? options.dims : dim, half = turned / 2;
    const Scratch<T> table(length * turned);
    FillTable(frequencies, positions, options, half, length, table.data());
    for_each_row(x.shape.numel() / dim, dim, [&](int64_t row) {
      const T* from = static_cast<const T*>(x.data) + RowOffset(x, row);
      T* to = static_cast<T*>(y.data) + RowOffset(y, row);
      const T* cosine = table.data() + row % length * turned;
      options.layout == RotaryLayout::half ? TurnHalves(from, cosine, cosine + half, to, half)
                                           : TurnNeighbours(from, cosine, cosine + half, to, half);
      std::copy(from + turned, from + dim, to + turned);
    });
  });
}

}  // namespace attend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend::cpu {
HWY_EXPORT(Rotary);
void rotary(ConstView x, ConstRows frequencies, ConstRows positions, const RotaryOptions& options, View y) {
  ATTEND_DISPATCH(y.dtype, Rotary)(x, frequencies, positions, options, y);
}
}  // namespace attend::cpu
#endif
