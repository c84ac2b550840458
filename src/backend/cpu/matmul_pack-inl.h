// Copies of a product's operands in the order the register tile reads them. Included once for each instruction set.
#if defined(ATTEND_MATMUL_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_MATMUL_PACK_INL_H_
#undef ATTEND_MATMUL_PACK_INL_H_
#else
#define ATTEND_MATMUL_PACK_INL_H_
#endif

#include <hwy/highway.h>

#include <cstring>

#include "backend/cpu/matmul.h"
#include "backend/cpu/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend::cpu::HWY_NAMESPACE {

/// Columns of a panel of b: what one register tile is wide.
template <class T>
HWY_INLINE int64_t PanelWidth() {
  return kTileVectors * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
}

/// A part of the inner dimension k.
struct Depth {
  int64_t begin = 0, end = 0;
  int64_t count() const { return end - begin; }
};

/// Panels and bands lie a cache line further apart than they are long: their lengths are often multiples of 4 KiB, and
/// writing several such streams at once would fight for one set of L1.
template <class T>
constexpr int64_t PackedStride(int64_t width, int64_t depth) {
  return width * depth + 64 / static_cast<int64_t>(sizeof(T));
}

/// Whole panels of b whose rows are contiguous, read along those rows.
template <class T>
void CopyPanels(const T* from, int64_t from_step, int64_t panels, int64_t depth, T* to) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t width = PanelWidth<T>(), stride = PackedStride<T>(width, depth);
  for (int64_t p = 0; p < depth; ++p, from += from_step, to += width) {
    for (int64_t panel = 0; panel < panels; ++panel) {
      HWY_UNROLL(4) for (int v = 0; v < kTileVectors; ++v) {
        hn::StoreU(hn::LoadU(d, from + panel * width + v * lanes), d, to + panel * stride + v * lanes);
      }
    }
  }
}

/// One panel of b with any strides; columns over the edge of b become 0.
template <class T>
void GatherPanel(const MatrixProduct<T>& in, int64_t first, Depth part, T* to) {
  const int64_t width = PanelWidth<T>(), columns = std::min(width, in.n - first), depth = part.count();
  const T* from = in.b + part.begin * in.b_step + first * in.b_col;
  if (in.b_step == 1) {
    TransposeScaled(from, in.b_col, columns, depth, T{1}, to, width);
  } else {
    for (int64_t p = 0; p < depth; ++p) {
      for (int64_t j = 0; j < columns; ++j) to[p * width + j] = from[p * in.b_step + j * in.b_col];
    }
  }
  for (int64_t p = 0; p < depth && columns < width; ++p) std::fill_n(to + p * width + columns, width - columns, T{0});
}

/// Panels [first, last) of b, PackedStride apart, each [p][width].
template <class T>
void PackPanels(const MatrixProduct<T>& in, int64_t first, int64_t last, Depth part, T* to) {
  const int64_t width = PanelWidth<T>(), depth = part.count();
  int64_t whole = first;
  if (in.b_col == 1) {
    whole = std::max(first, std::min(last, in.n / width));
    CopyPanels(in.b + part.begin * in.b_step + first * width, in.b_step, whole - first, depth, to);
  }
  for (int64_t panel = whole; panel < last; ++panel) {
    GatherPanel(in, panel * width, part, to + (panel - first) * PackedStride<T>(width, depth));
  }
}

/// Rows [first, last) of a as bands of kTileRows rows, PackedStride apart, each [p][row].
template <class T>
void PackBands(const MatrixProduct<T>& in, int64_t first, int64_t last, Depth part, T* to) {
  const int64_t depth = part.count(), stride = PackedStride<T>(kTileRows, depth);
  const int64_t whole = in.a_row == 1 ? (last - first) / kTileRows : 0;
  const T* from = in.a + first * in.a_row + part.begin * in.a_step;
  for (int64_t p = 0; p < depth && whole > 0; ++p) {  // along the rows of memory, of which a band takes but a piece
    for (int64_t band = 0; band < whole; ++band) {
      std::memcpy(to + band * stride + p * kTileRows, from + p * in.a_step + band * kTileRows, kTileRows * sizeof(T));
    }
  }
  for (int64_t i = whole * kTileRows; i < last - first; ++i) {
    T* row = to + i / kTileRows * stride + i % kTileRows;
    for (int64_t p = 0; p < depth; ++p) row[p * kTileRows] = from[i * in.a_row + p * in.a_step];
  }
}

}  // namespace attend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ATTEND_MATMUL_PACK_INL_H_
