// The register tile from which all f32 and f64 matrix products are built. Included once for each instruction set.
#if defined(ATTEND_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_TILE_INL_H_
#undef ATTEND_TILE_INL_H_
#else
#define ATTEND_TILE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "attend/base/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace attend::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// a · b + sum, rounded exactly as MulAdd rounds: a compiler would fuse some of these expressions and not others.
template <class T>
HWY_INLINE T AddProduct(T a, T b, T sum) {
  const hn::CappedTag<T, 1> one;
  return hn::GetLane(hn::MulAdd(hn::Set(one, a), hn::Set(one, b), hn::Set(one, sum)));
}

/// A tile is kTileRows × (kTileVectors vectors). With 16 registers, 4 × 3 leaves three registers for b and one for a
/// broadcast element of a: each step is 12 FMAs for 7 loads. With 32 registers, 8 × 3 gives 24 FMAs for 11 loads.
#if HWY_TARGET <= HWY_AVX3
inline constexpr int kTileRows = 8;
#else
inline constexpr int kTileRows = 4;
#endif
inline constexpr int kTileVectors = 3;

/// The two operands of a tile: a(m, p) = a[m · a_row + p · a_step]; b(p, n) = b[p · b_step + n].
template <class T>
struct TileOperands {
  const T* a = nullptr;
  int64_t a_row = 0, a_step = 0;
  const T* b = nullptr;
  int64_t b_step = 0;
};

/// Nothing is prefetched beside the steps of a tile.
struct NoPrefetch {
  HWY_INLINE void fetch(int64_t) const {}
  NoPrefetch after(int64_t) const { return {}; }
};

/// Prefetches a range of memory evenly beside the steps of a tile.
struct EvenPrefetch {
  const char* at;
  int64_t sixteenths;  // of a byte, in each step
  [[gnu::always_inline]] void fetch(int64_t p) const { __builtin_prefetch(at + (p * sixteenths >> 4), 0, 2); }
  EvenPrefetch after(int64_t steps) const { return {at + (steps * sixteenths >> 4), sixteenths}; }
};

/// sum[m][n] += Σ_{p < depth} a(m, p) · b(p, n). Each element is one chain of FMAs in order of p.
template <int kRows, int kVectors, class D, class T = hn::TFromD<D>, class Prefetching = NoPrefetch>
HWY_INLINE void AccumulateTile(D d, int64_t depth, const TileOperands<T>& in, hn::Vec<D> (&sum)[kRows][kVectors],
                               const Prefetching& ahead = {}) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const T* HWY_RESTRICT a = in.a;
  const T* HWY_RESTRICT b = in.b;
  HWY_UNROLL(4) for (int64_t p = 0; p < depth; ++p, a += in.a_step, b += in.b_step) {
    hn::Vec<D> row[kVectors];
    ahead.fetch(p);
    HWY_UNROLL(4) for (int n = 0; n < kVectors; ++n) row[n] = hn::LoadU(d, b + n * lanes);
    HWY_UNROLL(16) for (int m = 0; m < kRows; ++m) {
      const auto value = hn::Set(d, a[m * in.a_row]);
      HWY_UNROLL(4) for (int n = 0; n < kVectors; ++n) sum[m][n] = hn::MulAdd(value, row[n], sum[m][n]);
    }
  }
}

/// A product whose depth may consist of several segments of memory (panels), one after the other.
template <class T>
struct TileProduct {
  TileOperands<T> in;
  int64_t depth = 0;
  int64_t segments = 1;                  ///< number of segments of `depth` each
  int64_t a_segment = 0, b_segment = 0;  ///< distance from one segment to the next
  T* c = nullptr;
  int64_t c_row = 0;
  bool add = false;          ///< c += a b instead of c = a b
  const T* decay = nullptr;  ///< with `add`: factors, one per column, that multiply c first
};

template <int kRows, int kVectors, class T>
HWY_INLINE void MultiplyTile(const TileProduct<T>& product, int64_t row) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  T* HWY_RESTRICT c = product.c + row * product.c_row;
  hn::Vec<decltype(d)> sum[kRows][kVectors];
  HWY_UNROLL(16) for (int m = 0; m < kRows; ++m) {
    HWY_UNROLL(4) for (int n = 0; n < kVectors; ++n) {
      sum[m][n] = product.add ? hn::LoadU(d, c + m * product.c_row + n * lanes) : hn::Zero(d);
    }
  }
  if (product.decay != nullptr) {
    HWY_UNROLL(4) for (int n = 0; n < kVectors; ++n) {
      const auto decay = hn::LoadU(d, product.decay + n * lanes);
      HWY_UNROLL(16) for (int m = 0; m < kRows; ++m) sum[m][n] = hn::Mul(sum[m][n], decay);
    }
  }
  TileOperands<T> in = product.in;
  in.a += row * in.a_row;
  for (int64_t s = 0; s < product.segments; ++s, in.a += product.a_segment, in.b += product.b_segment) {
    AccumulateTile<kRows, kVectors>(d, product.depth, in, sum);
  }
  HWY_UNROLL(16) for (int m = 0; m < kRows; ++m) {
    HWY_UNROLL(4) for (int n = 0; n < kVectors; ++n) hn::StoreU(sum[m][n], d, c + m * product.c_row + n * lanes);
  }
}

/// c[rows × kVectors vectors] from a and b, for any number of rows. Not inlined: among other code, GCC spills
/// registers.
template <int kVectors, class T>
HWY_NOINLINE void MultiplyRows(const TileProduct<T>& product, int64_t rows) {
  int64_t row = 0;
  for (; row + kTileRows <= rows; row += kTileRows) MultiplyTile<kTileRows, kVectors>(product, row);
  if constexpr (kTileRows > 4) {
    if (rows - row >= 4) {
      MultiplyTile<4, kVectors>(product, row);
      row += 4;
    }
  }
  if (rows - row >= 2) {
    MultiplyTile<2, kVectors>(product, row);
    row += 2;
  }
  if (rows - row >= 1) MultiplyTile<1, kVectors>(product, row);
}

/// Loads four elements of each of several rows: rows 4 r + i for r = 0, 1, …, where `from` points to row i.
template <class D, class T>
HWY_INLINE hn::Vec<D> LoadFours(D d, const T* HWY_RESTRICT from, int64_t from_row) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    return hn::LoadU(d, from);
  } else {
    const hn::Half<D> half;
    constexpr auto kRows = static_cast<int64_t>(hn::MaxLanes(half));
    return hn::Combine(d, LoadFours(half, from + kRows * from_row, from_row), LoadFours(half, from, from_row));
  }
}

/// The same for bf16, widened to f32.
template <class D>
HWY_INLINE hn::Vec<D> LoadFours(D d, const BFloat16* HWY_RESTRICT from, int64_t from_row) {
  const hn::RebindToUnsigned<D> words;
  const hn::Rebind<uint16_t, D> halves;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(words, LoadFours(halves, &from->bits, from_row))));
}

template <class T>
T Widened(T value) {
  return value;
}
inline float Widened(BFloat16 value) { return to_float(value); }

/// to[c][r] = factor · from[r][c] + more[r] for four columns and as many rows as D has lanes. Transposes in registers,
/// so that memory is read and written contiguously.
template <class D, class From, class T>
HWY_INLINE void TransposeBlock(D d, const From* HWY_RESTRICT from, int64_t from_row, T factor, hn::Vec<D> more,
                               T* HWY_RESTRICT to, int64_t to_row) {
  const hn::Repartition<double, D> pairs;
  const auto scale = hn::Set(d, factor);
  const auto a = LoadFours(d, from, from_row), b = LoadFours(d, from + from_row, from_row);
  const auto e = LoadFours(d, from + 2 * from_row, from_row), f = LoadFours(d, from + 3 * from_row, from_row);
  const auto ab_low = hn::BitCast(pairs, hn::InterleaveLower(d, a, b)),
             ab_high = hn::BitCast(pairs, hn::InterleaveUpper(d, a, b));
  const auto ef_low = hn::BitCast(pairs, hn::InterleaveLower(d, e, f)),
             ef_high = hn::BitCast(pairs, hn::InterleaveUpper(d, e, f));
  const auto finished = [&](auto turned) HWY_ATTR { return hn::MulAdd(scale, hn::BitCast(d, turned), more); };
  hn::StoreU(finished(hn::InterleaveLower(pairs, ab_low, ef_low)), d, to);
  hn::StoreU(finished(hn::InterleaveUpper(pairs, ab_low, ef_low)), d, to + to_row);
  hn::StoreU(finished(hn::InterleaveLower(pairs, ab_high, ef_high)), d, to + 2 * to_row);
  hn::StoreU(finished(hn::InterleaveUpper(pairs, ab_high, ef_high)), d, to + 3 * to_row);
}

/// The same for at least as many rows as D has lanes and at least four columns. The last block in each direction
/// overlaps the one before it, so that it is whole: some elements are written twice, with the same value.
template <class D, class From, class T>
HWY_INLINE void TransposeBlocks(D d, const From* HWY_RESTRICT from, int64_t from_row, int64_t rows, int64_t cols,
                                T factor, T* HWY_RESTRICT to, int64_t to_row, const T* more) {
  constexpr auto kRows = static_cast<int64_t>(hn::MaxLanes(D()));
  for (int64_t block = 0; block < rows; block += kRows) {
    const int64_t r = HWY_MIN(block, rows - kRows);
    const auto added = more != nullptr ? hn::LoadU(d, more + r) : hn::Zero(d);
    int64_t c = 0;
    for (; c + 4 <= cols; c += 4) {
      TransposeBlock(d, from + r * from_row + c, from_row, factor, added, to + c * to_row + r, to_row);
    }
    if (c == cols) continue;
    TransposeBlock(d, from + r * from_row + cols - 4, from_row, factor, added, to + (cols - 4) * to_row + r, to_row);
  }
}

/// The same for any size. If `more` is null, nothing is added.
template <class From, class T>
HWY_NOINLINE void TransposeScaled(const From* HWY_RESTRICT from, int64_t from_row, int64_t rows, int64_t cols, T factor,
                                  T* HWY_RESTRICT to, int64_t to_row, const T* more = nullptr) {
  if constexpr (sizeof(T) == 4) {
    const hn::ScalableTag<T> wide;
    constexpr auto kRows = static_cast<int64_t>(hn::MaxLanes(wide));
    if (rows >= kRows && cols >= 4) return TransposeBlocks(wide, from, from_row, rows, cols, factor, to, to_row, more);
    const hn::FixedTag<T, 4> four;
    if (rows >= 4 && cols >= 4) return TransposeBlocks(four, from, from_row, rows, cols, factor, to, to_row, more);
  }
  for (int64_t r = 0; r < rows; ++r) {
    const T added = more != nullptr ? more[r] : T{0};
    for (int64_t c = 0; c < cols; ++c) to[c * to_row + r] = factor * Widened(from[r * from_row + c]) + added;
  }
}

}  // namespace attend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ATTEND_TILE_INL_H_
