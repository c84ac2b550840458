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

/// to[p · to_step + j] = from[j · from_step + p] for j < kWidth, p < count: 16 bytes by 16 bytes through registers.
template <class T>
struct Transposer {
  static constexpr int64_t kWidth = 16 / sizeof(T);
  static HWY_INLINE void Block(const T* from, int64_t from_step, T* to, int64_t to_step) {
    const hn::FixedTag<T, kWidth> d;
    const auto r0 = hn::LoadU(d, from), r1 = hn::LoadU(d, from + from_step);
    if constexpr (kWidth == 2) {
      hn::StoreU(hn::InterleaveLower(d, r0, r1), d, to);
      hn::StoreU(hn::InterleaveUpper(d, r0, r1), d, to + to_step);
    } else {
      const auto r2 = hn::LoadU(d, from + 2 * from_step), r3 = hn::LoadU(d, from + 3 * from_step);
      const hn::FixedTag<double, 2> pairs;
      const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, r0, r1));
      const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, r2, r3));
      const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, r0, r1));
      const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, r2, r3));
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23)), d, to);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23)), d, to + to_step);
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23)), d, to + 2 * to_step);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23)), d, to + 3 * to_step);
    }
  }
};

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
void GatherPanel(const Product<T>& in, int64_t first, Depth part, T* to) {
  constexpr int64_t kWidth = Transposer<T>::kWidth;
  const int64_t width = PanelWidth<T>(), columns = std::min(width, in.n - first), depth = part.count();
  const T* from = in.b + part.begin * in.b_step + first * in.b_col;
  int64_t p = 0;
  if (in.b_step == 1 && columns == width) {
    for (; p + kWidth <= depth; p += kWidth) {
      for (int64_t j = 0; j < width; j += kWidth) {
        Transposer<T>::Block(from + p + j * in.b_col, in.b_col, to + p * width + j, width);
      }
    }
  }
  for (; p < depth; ++p) {
    for (int64_t j = 0; j < width; ++j) to[p * width + j] = j < columns ? from[p * in.b_step + j * in.b_col] : T{0};
  }
}

/// Panels [first, last) of b, PackedStride apart, each [p][width].
template <class T>
void PackPanels(const Product<T>& in, int64_t first, int64_t last, Depth part, T* to) {
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
void PackBands(const Product<T>& in, int64_t first, int64_t last, Depth part, T* to) {
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
