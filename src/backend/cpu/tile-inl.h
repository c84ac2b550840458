// The register tile that every matrix product here is made of. Included once for each instruction set.
#if defined(ATTEND_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_TILE_INL_H_
#undef ATTEND_TILE_INL_H_
#else
#define ATTEND_TILE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace attend::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// A tile is kTileRows × (kTileVectors vectors). With 16 registers 4 × 3 leaves three for b and one for a broadcast
/// element of a, so each step is 12 FMAs for 7 loads; with 32 registers 8 × 3 makes it 24 for 11.
#if HWY_TARGET <= HWY_AVX3
inline constexpr int kTileRows = 8;
#else
inline constexpr int kTileRows = 4;
#endif
inline constexpr int kTileVectors = 3;

/// Where the two operands of a tile lie. a(m, p) = a[m · a_row + p · a_step]; b(p, n) = b[p · b_step + n].
template <class T>
struct TileOperands {
  const T* a = nullptr;
  int64_t a_row = 0, a_step = 0;
  const T* b = nullptr;
  int64_t b_step = 0;
};

/// sum[m][n] += Σ_{p < depth} a(m, p) · b(p, n), each element one chain of FMAs in rising p.
template <int kRows, int kVectors, class D, class T = hn::TFromD<D>>
HWY_INLINE void AccumulateTile(D d, int64_t depth, const TileOperands<T>& in, hn::Vec<D> (&sum)[kRows][kVectors]) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const T* HWY_RESTRICT a = in.a;
  const T* HWY_RESTRICT b = in.b;
  for (int64_t p = 0; p < depth; ++p, a += in.a_step, b += in.b_step) {
    hn::Vec<D> row[kVectors];
    HWY_UNROLL(4) for (int n = 0; n < kVectors; ++n) row[n] = hn::LoadU(d, b + n * lanes);
    HWY_UNROLL(16) for (int m = 0; m < kRows; ++m) {
      const auto value = hn::Set(d, a[m * in.a_row]);
      HWY_UNROLL(4) for (int n = 0; n < kVectors; ++n) sum[m][n] = hn::MulAdd(value, row[n], sum[m][n]);
    }
  }
}

}  // namespace attend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ATTEND_TILE_INL_H_
