// Packing: copies a product's operands in the order in which the register tile reads them. Included once for each
// instruction set.
#if defined(ATTEND_MATMUL_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_MATMUL_PACK_INL_H_
#undef ATTEND_MATMUL_PACK_INL_H_
#else
#define ATTEND_MATMUL_PACK_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstring>

#include "backend/cpu/matmul/matmul.h"
#include "backend/cpu/matmul/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend::cpu::HWY_NAMESPACE {

/// The columns of b, cut into panels as wide as a register tile. The last one or two panels are one vector narrower if
/// that leaves less padding: on AVX2, 128 columns of f32 are 4 × 24 + 2 × 16 rather than 6 × 24, 12 % less work. If all
/// columns fit into one vector, there is a single panel of one vector.
template <class T>
struct Panels {
  static_assert(kTileVectors == 3);
  int64_t columns, lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  int64_t wide, count;

  explicit Panels(int64_t n) : columns(n) {
    const int64_t vectors = (n + lanes - 1) / lanes;
    const int64_t narrow = vectors == 1 ? 1 : (3 - vectors % 3) % 3;
    wide = std::max<int64_t>(0, vectors - 2 * narrow) / 3;
    count = wide + narrow;
  }
  int64_t widest() const { return 3 * lanes; }
  bool is_single() const { return columns <= lanes; }
  int64_t width(int64_t panel) const { return (panel < wide ? 3 : is_single() ? 1 : 2) * lanes; }
  int64_t begin(int64_t panel) const { return (2 * panel + std::min(panel, wide)) * lanes; }
  int64_t used(int64_t panel) const { return std::min(width(panel), columns - begin(panel)); }
  /// Number of panels without padding.
  int64_t whole() const { return columns % lanes == 0 && columns > lanes ? count : count - 1; }
};

/// A part of the inner dimension k.
struct Depth {
  int64_t begin = 0, end = 0;
  int64_t count() const { return end - begin; }
};

/// Distance between packed panels or bands: their length plus one cache line. The length is often a multiple of 4 KiB,
/// and several streams at such a distance would compete for one set of L1 when they are written.
template <class T>
constexpr int64_t PackedStride(int64_t width, int64_t depth) {
  return width * depth + 64 / static_cast<int64_t>(sizeof(T));
}

/// Packs whole panels of kVectors vectors from a b with contiguous rows. Reads along the rows.
template <int kVectors, class T>
void CopyPanels(const T* from, int64_t from_step, int64_t panels, int64_t depth, T* to, int64_t stride) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr int kStep = kVectors;
  for (int64_t p = 0; p < depth; ++p, from += from_step, to += kStep * lanes) {
    for (int64_t panel = 0; panel < panels; ++panel) {
      HWY_UNROLL(4) for (int v = 0; v < kVectors; ++v) {
        hn::StoreU(hn::LoadU(d, from + (panel * kVectors + v) * lanes), d, to + panel * stride + v * lanes);
      }
    }
  }
}

/// Widens a row of bf16 to f32, which is exact. The last vector overlaps the one before it, so that it is whole.
inline void WidenRow(const BFloat16* HWY_RESTRICT from, int64_t count, float* HWY_RESTRICT to) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> words;
  const hn::Rebind<uint16_t, decltype(d)> halves;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto widen = [&](int64_t p) HWY_ATTR {
    const auto bits = hn::PromoteTo(words, hn::LoadU(halves, &from[p].bits));
    hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(bits)), d, to + p);
  };
  int64_t p = 0;
  for (; p + lanes <= count; p += lanes) widen(p);
  if (p == count) return;
  if (count >= lanes) return widen(count - lanes);
  for (; p < count; ++p) to[p] = to_float(from[p]);
}

/// Packs one panel of b with any strides. Columns beyond the edge of b become 0.
template <class T>
void GatherPanel(const MatrixProduct<T>& in, const Panels<T>& panels, int64_t panel, Depth part, T* to) {
  const int64_t width = panels.width(panel), columns = panels.used(panel), depth = part.count();
  const int64_t place = part.begin * in.b_step + panels.begin(panel) * in.b_col;
  const T* from = in.b != nullptr ? in.b + place : nullptr;
  if (in.b_bf16 != nullptr) {
    if constexpr (std::is_same_v<T, float>)
      TransposeScaled(in.b_bf16 + place, in.b_col, columns, depth, T{1}, to, width);
  } else if (in.b_step == 1) {
    TransposeScaled(from, in.b_col, columns, depth, T{1}, to, width);
  } else {
    for (int64_t p = 0; p < depth; ++p) {
      for (int64_t j = 0; j < columns; ++j) to[p * width + j] = from[p * in.b_step + j * in.b_col];
    }
  }
  for (int64_t p = 0; p < depth && columns < width; ++p) std::fill_n(to + p * width + columns, width - columns, T{0});
}

/// Packs panels [first, last) of b, PackedStride of the widest panel apart, each as [p][width].
template <class T>
void PackPanels(const MatrixProduct<T>& in, const Panels<T>& panels, int64_t first, int64_t last, Depth part, T* to) {
  const int64_t depth = part.count(), stride = PackedStride<T>(panels.widest(), depth);
  int64_t panel = first;
  if (in.b != nullptr && in.b_col == 1) {
    const T* from = in.b + part.begin * in.b_step;
    const int64_t wide = std::max(first, std::min({last, panels.wide, panels.whole()}));
    CopyPanels<3>(from + panels.begin(first), in.b_step, wide - first, depth, to, stride);
    panel = std::max(wide, std::min(last, panels.whole()));
    CopyPanels<2>(from + panels.begin(wide), in.b_step, panel - wide, depth, to + (wide - first) * stride, stride);
  }
  for (; panel < last; ++panel) GatherPanel(in, panels, panel, part, to + (panel - first) * stride);
}

/// Packs rows [first, last) of a as bands of kTileRows rows, PackedStride apart, each as [p][row].
template <class T>
void PackBands(const MatrixProduct<T>& in, int64_t first, int64_t last, Depth part, T* to) {
  const int64_t depth = part.count(), stride = PackedStride<T>(kTileRows, depth), whole = (last - first) / kTileRows;
  const T* from = in.a + first * in.a_row + part.begin * in.a_step;
  int64_t row = 0;
  if (in.a_row == 1) {
    // Read along rows of memory. The bands use only a piece of each row, which the hardware prefetcher does not follow.
    constexpr int64_t kAhead = 12, kLine = 64 / static_cast<int64_t>(sizeof(T));
    for (int64_t p = 0; p < depth; ++p) {
      const T* ahead = from + std::min(p + kAhead, depth - 1) * in.a_step;
      for (int64_t i = 0; i < whole * kTileRows; i += kLine) hwy::Prefetch(ahead + i);
      for (int64_t band = 0; band < whole; ++band) {
        std::memcpy(to + band * stride + p * kTileRows, from + p * in.a_step + band * kTileRows, kTileRows * sizeof(T));
      }
    }
    row = whole * kTileRows;
  } else if (in.a_step == 1) {
    for (; row < whole * kTileRows; row += kTileRows) {
      TransposeScaled(from + row * in.a_row, in.a_row, kTileRows, depth, T{1}, to + row / kTileRows * stride,
                      kTileRows);
    }
  }
  for (; row < last - first; ++row) {
    T* values = to + row / kTileRows * stride + row % kTileRows;
    for (int64_t p = 0; p < depth; ++p) values[p * kTileRows] = from[row * in.a_row + p * in.a_step];
  }
}

}  // namespace attend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ATTEND_MATMUL_PACK_INL_H_
