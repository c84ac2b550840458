// One register tile of a matrix product, from operands to memory. Included once for each instruction set.
#if defined(ATTEND_MATMUL_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_MATMUL_TILE_INL_H_
#undef ATTEND_MATMUL_TILE_INL_H_
#else
#define ATTEND_MATMUL_TILE_INL_H_
#endif

#include <hwy/cache_control.h>

#include "backend/cpu/matmul/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend::cpu::HWY_NAMESPACE {

/// Where a tile's result goes.
template <class T>
struct TileOutput {
  T* c = nullptr;
  int64_t c_row = 0;
  int64_t columns = 0;      ///< less than the width of the tile at the edge
  bool add = false;         ///< add to the content of c
  const T* bias = nullptr;  ///< added last; null: no bias
};

inline constexpr int64_t kChain = 256;  // longest chain of sums along k: short chains keep rounding errors small

/// c = Σ_p a b (+ c) (+ bias) for one tile.
template <int kRows, int kVectors, class T, class Prefetching = NoPrefetch>
HWY_NOINLINE void ProductTile(int64_t depth, const TileOperands<T>& in, const TileOutput<T>& out,
                              const Prefetching& ahead = {}) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> sum[kRows][kVectors];
  HWY_UNROLL(16) for (int m = 0; m < kRows; ++m) {
    HWY_UNROLL(4) for (int n = 0; n < kVectors; ++n) sum[m][n] = hn::Zero(d);
  }
  // c is often in L3 or memory: prefetch it while the sums are computed.
  HWY_UNROLL(16) for (int m = 0; m < kRows; ++m) {
    hwy::Prefetch(out.c + m * out.c_row);
    hwy::Prefetch(out.c + m * out.c_row + out.columns - 1);
  }
  HWY_ALIGN T before[kRows * kVectors * hn::MaxLanes(d)];
  TileOperands<T> rest = in;
  const int64_t chain = Blocks(depth, kChain, 8).size;
  for (int64_t p = 0; p < depth; p += chain) {
    AccumulateTile<kRows, kVectors>(d, HWY_MIN(chain, depth - p), rest, sum, ahead.after(p));
    const bool is_last = p + chain >= depth;
    HWY_UNROLL(16) for (int m = 0; m < kRows && depth > chain; ++m) {
      HWY_UNROLL(4) for (int n = 0; n < kVectors; ++n) {
        T* place = before + (m * kVectors + n) * lanes;
        if (p > 0) sum[m][n] = hn::Add(sum[m][n], hn::Load(d, place));
        if (is_last) continue;
        hn::Store(sum[m][n], d, place);
        sum[m][n] = hn::Zero(d);
      }
    }
    rest.a += chain * rest.a_step, rest.b += chain * rest.b_step;
  }
  if (out.columns == kVectors * lanes) {
    if (out.add) {
      HWY_UNROLL(16) for (int m = 0; m < kRows; ++m) {
        HWY_UNROLL(4) for (int n = 0; n < kVectors; ++n) {
          sum[m][n] = hn::Add(sum[m][n], hn::LoadU(d, out.c + m * out.c_row + n * lanes));
        }
      }
    }
    if (out.bias != nullptr) {
      HWY_UNROLL(4) for (int n = 0; n < kVectors; ++n) {
        const auto bias = hn::LoadU(d, out.bias + n * lanes);
        HWY_UNROLL(16) for (int m = 0; m < kRows; ++m) sum[m][n] = hn::Add(sum[m][n], bias);
      }
    }
    HWY_UNROLL(16) for (int m = 0; m < kRows; ++m) {
      HWY_UNROLL(4) for (int n = 0; n < kVectors; ++n) hn::StoreU(sum[m][n], d, out.c + m * out.c_row + n * lanes);
    }
    return;
  }
  HWY_ALIGN T edge[kRows * kVectors * hn::MaxLanes(d)];
  HWY_UNROLL(16) for (int m = 0; m < kRows; ++m) {
    HWY_UNROLL(4)
    for (int n = 0; n < kVectors; ++n) hn::StoreU(sum[m][n], d, edge + (m * kVectors + n) * lanes);
  }
  for (int m = 0; m < kRows; ++m) {
    for (int64_t j = 0; j < out.columns; ++j) {
      T& c = out.c[m * out.c_row + j];
      const T value = out.add ? edge[m * kVectors * lanes + j] + c : edge[m * kVectors * lanes + j];
      c = out.bias != nullptr ? value + out.bias[j] : value;
    }
  }
}

/// Rows of a tile that is one vector narrower. With 16 registers it gets 6 rows, to have as many sums as a full tile:
/// four rows would leave eight sums, too few to hide the latency of each chain.
inline constexpr int kNarrowRows = kTileRows == 4 ? 6 : kTileRows;

/// ProductTile for a number of rows known only at run time, up to kRows.
template <int kVectors, int kRows, class T, class Prefetching = NoPrefetch>
HWY_INLINE void ProductRows(int64_t rows, int64_t depth, const TileOperands<T>& in, const TileOutput<T>& out,
                            const Prefetching& ahead = {}) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return ProductRows<kVectors, kRows - 1>(rows, depth, in, out, ahead);
  }
  ProductTile<kRows, kVectors>(depth, in, out, ahead);
}

}  // namespace attend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ATTEND_MATMUL_TILE_INL_H_
