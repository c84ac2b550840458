#include "backend/cpu/cpu.h"
#include "backend/cpu/dispatch.h"
#include "backend/cpu/row_pieces.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/dropout.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
#include "backend/cpu/philox-inl.h"
#include "backend/cpu/sweep-inl.h"
#include "backend/cpu/with_float-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace attend::cpu::HWY_NAMESPACE {

/// y = x · scale if dropout keeps the element, else 0 (also if x is NaN or ∞).
template <class T>
void DropPiece(const uint16_t* bits, uint32_t threshold, T scale, const T* x, T* y, int64_t count) {
  const hn::ScalableTag<T> d;
  const hn::Rebind<uint16_t, decltype(d)> narrow;
  const hn::Rebind<uint32_t, decltype(d)> middle;
  const auto factor = hn::Set(d, scale);
  Sweep(d, count, [&](auto place) {  // `bits` is padded by a whole vector
    const auto row = hn::PromoteTo(middle, hn::LoadU(narrow, bits + place.at));
    const auto scaled = hn::Mul(place.load(x), factor);
    if constexpr (sizeof(T) == 4) {
      place.store(hn::IfThenElseZero(KeepMask(d, row, threshold), scaled), y);
    } else {
      const auto wide = hn::PromoteTo(hn::RebindToUnsigned<decltype(d)>(), row);
      place.store(hn::IfThenElseZero(KeepMask(d, wide, threshold), scaled), y);
    }
  });
}

void Dropout(RandomStream stream, double p, ConstRows x, Rows y) {
  WithFloat(y.dtype, "dropout", [&](auto type) {
    using T = decltype(type);
    const uint32_t threshold = drop_threshold(p);
    const T scale = p < 1 ? static_cast<T>(1 / (1 - p)) : T{0};
    for_each_piece(y.rows, y.cols, x.stride == x.cols && y.stride == y.cols, [&](const Piece& piece) {
      const T* const in = piece.of<T>(x);
      T* const out = piece.of<T>(y);
      ForDropBits(stream, piece.first, piece.count, [&](const uint16_t* bits, int64_t at, int64_t count) {
        DropPiece<T>(bits, threshold, scale, in + at, out + at, count);
      });
    });
  });
}

}  // namespace attend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend::cpu {
HWY_EXPORT(Dropout);
void dropout(RandomStream stream, double p, ConstRows x, Rows y) {
  ATTEND_DISPATCH(y.dtype, Dropout)(stream.settled(), p, x, y);
}
}  // namespace attend::cpu
#endif
