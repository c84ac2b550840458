#include "backend/cpu/cpu.h"
#include "backend/cpu/dispatch.h"
#include "backend/cpu/row_pieces.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/random.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
#include "backend/cpu/philox-inl.h"
#include "backend/cpu/simd_math-inl.h"
#include "backend/cpu/with_float-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace attend::cpu::HWY_NAMESPACE {

void Uniform(RandomStream stream, double lowest, double highest, Rows y) {
  WithFloat(y.dtype, "uniform", [&](auto type) {
    using T = decltype(type);
    for_each_piece(y.rows, y.cols, y.stride == y.cols, [&](const Piece& piece) {
      T* const out = piece.of<T>(y);
      ForWords(stream, piece.first, piece.count, [&](const uint32_t* words, int64_t at, int64_t count) {
        for (int64_t i = 0; i < count; ++i) {
          out[at + i] = static_cast<T>(lowest + (highest - lowest) * static_cast<double>(uniform_from_bits(words[i])));
        }
      });
    });
  });
}

/// Box–Muller: the two words a, b of a pair give r cos φ and r sin φ with r = √(−2 ln u), u = (a + ½) / 2³² and
/// φ = 2π b / 2³². Computed in double, so that all instruction sets round to the same float, apart from rare ties.
inline void NormalPairs(const uint32_t* words, int64_t pairs, double* out) {
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  HWY_ALIGN double radius[hn::MaxLanes(d)];
  HWY_ALIGN double angle[hn::MaxLanes(d)];
  for (int64_t begin = 0; begin < pairs; begin += lanes) {
    for (int64_t i = 0; i < lanes; ++i) {
      const bool inside = begin + i < pairs;
      radius[i] = inside ? (static_cast<double>(words[2 * (begin + i)]) + 0.5) * 0x1p-32 : 1.0;
      angle[i] = inside ? static_cast<double>(words[2 * (begin + i) + 1]) * (6.283185307179586477 * 0x1p-32) : 0.0;
    }
    const auto r = hn::Sqrt(hn::Mul(hn::Set(d, -2.0), hn::Log(d, hn::Load(d, radius))));
    const auto phi = hn::Load(d, angle);
    hn::Store(hn::Mul(r, hn::Cos(d, phi)), d, radius);
    hn::Store(hn::Mul(r, hn::Sin(d, phi)), d, angle);
    for (int64_t i = 0; i < std::min(lanes, pairs - begin); ++i) {
      out[2 * (begin + i)] = radius[i];
      out[2 * (begin + i) + 1] = angle[i];
    }
  }
}

void NormalFill(RandomStream stream, double mean, double deviation, Rows y) {
  WithFloat(y.dtype, "normal", [&](auto type) {
    using T = decltype(type);
    for_each_piece(y.rows, y.cols, y.stride == y.cols, [&](const Piece& piece) {
      T* const out = piece.of<T>(y);
      ForWords(stream, piece.first, piece.count, [&](const uint32_t* words, int64_t at, int64_t count) {
        double values[kBatch + 2];
        const int64_t skipped = (piece.first + at) % 2;  // a pair may begin before the piece
        NormalPairs(words - skipped, (count + skipped + 1) / 2, values);
        for (int64_t i = 0; i < count; ++i) out[at + i] = static_cast<T>(mean + deviation * values[i + skipped]);
      });
    });
  });
}

}  // namespace attend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend::cpu {
HWY_EXPORT(Uniform);
HWY_EXPORT(NormalFill);
void uniform(RandomStream stream, double low, double high, Rows y) {
  ATTEND_DISPATCH(y.dtype, Uniform)(stream.settled(), low, high, y);
}
void normal(RandomStream stream, double mean, double deviation, Rows y) {
  ATTEND_DISPATCH(y.dtype, NormalFill)(stream.settled(), mean, deviation, y);
}
}  // namespace attend::cpu
#endif
