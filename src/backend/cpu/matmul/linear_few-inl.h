// Products of a few rows with f32 or bf16 weights, limited by the time to read the weights once. Included once for each
// instruction set.
#if defined(ATTEND_WEIGHTS_FEW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_WEIGHTS_FEW_INL_H_
#undef ATTEND_WEIGHTS_FEW_INL_H_
#else
#define ATTEND_WEIGHTS_FEW_INL_H_
#endif

#include <hwy/highway.h>

#include "backend/cpu/matmul/fetch_ahead.h"
#include "backend/cpu/matmul/linear.h"
#include "backend/cpu/matmul/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;

/// f32 weights, loaded unchanged.
struct PlainRows {
  using Element = float;
  static HWY_INLINE hn::Vec<F32> Load(const Element* from) { return hn::LoadU(F32(), from); }
  static HWY_INLINE float Value(Element element) { return element; }
};

/// bf16 weights. bf16 is the upper half of an f32; widening keeps the order, so that sums have the same bits as with
/// f32 weights. Separating even and odd positions by a shift and a mask would save one instruction in six, but the loop
/// waits for memory anyway.
struct Bf16Rows {
  using Element = BFloat16;
  static HWY_INLINE hn::Vec<F32> Load(const Element* from) {
    const auto halves = hn::LoadU(hn::Rebind<uint16_t, F32>(), &from->bits);
    return hn::BitCast(F32(), hn::ShiftLeft<16>(hn::PromoteTo(hn::RebindToUnsigned<F32>(), halves)));
  }
  static HWY_INLINE float Value(Element element) {
    const uint32_t bits = static_cast<uint32_t>(element.bits) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
};

/// A few rows of x.
struct FewRows {
  const float* data;
  int64_t stride, depth, count;
};

/// sum[s][i] = x_i · weights[s] over whole vectors, as unreduced lanes, for kFew rows of x and one row of each stream
/// of weights. Rows of one stream are read one after the other: reading neighbours side by side has two thirds of the
/// rate.
template <class Format, int kFew, int kStreams>
HWY_INLINE void DotRow(const FewRows& x, const typename Format::Element* const (&weights)[kStreams], int64_t whole,
                       StreamAhead ahead, hn::Vec<F32> (&sum)[kStreams][kFew]) {
  constexpr int kChains = kFew > 2 ? 1 : kFew > 1 ? 2 : 4;
  constexpr int64_t kBlock = HWY_LANES(float), kBytes = sizeof(typename Format::Element);
  const F32 d;
  hn::Vec<F32> part[kStreams][kChains][kFew];
  HWY_UNROLL(2) for (int s = 0; s < kStreams; ++s) {
    HWY_UNROLL(4) for (int c = 0; c < kChains; ++c) {
      HWY_UNROLL(4) for (int i = 0; i < kFew; ++i) part[s][c][i] = hn::Zero(d);
    }
  }
  int64_t p = 0;
  for (; p + kChains * kBlock <= whole; p += kChains * kBlock) {
    HWY_UNROLL(4) for (int c = 0; c < kChains; ++c) {
      const int64_t at = p + c * kBlock;
      HWY_UNROLL(2) for (int s = 0; s < kStreams; ++s) {
        if (c * kBlock * kBytes % 64 == 0) ahead.fetch(weights[s] + at);
        const auto weight = Format::Load(weights[s] + at);
        HWY_UNROLL(4) for (int i = 0; i < kFew; ++i) {
          part[s][c][i] = hn::MulAdd(hn::LoadU(d, x.data + i * x.stride + at), weight, part[s][c][i]);
        }
      }
    }
  }
  for (; p < whole; p += kBlock) {
    HWY_UNROLL(2) for (int s = 0; s < kStreams; ++s) {
      const auto weight = Format::Load(weights[s] + p);
      HWY_UNROLL(4) for (int i = 0; i < kFew; ++i) {
        part[s][0][i] = hn::MulAdd(hn::LoadU(d, x.data + i * x.stride + p), weight, part[s][0][i]);
      }
    }
  }
  HWY_UNROLL(2) for (int s = 0; s < kStreams; ++s) {
    HWY_UNROLL(4) for (int i = 0; i < kFew; ++i) {
      sum[s][i] = part[s][0][i];
      HWY_UNROLL(4) for (int c = 1; c < kChains; ++c) sum[s][i] = hn::Add(sum[s][i], part[s][c][i]);
    }
  }
}

/// Multiplies kFew rows of x, from `row` on, with rows [first, last) of a product's weights and, for stream s, with the
/// rows s · `apart` further on. Writes the results to y.
template <class Format, int kFew, int kStreams>
void DotStreams(const FewRows& x, int64_t row, const WeightProduct& product, int64_t first, int64_t last,
                int64_t apart) {
  const auto* weights = static_cast<const typename Format::Element*>(product.weight.values.data);
  const auto* bias = static_cast<const float*>(product.bias.data);
  auto* y = static_cast<float*>(product.y.data) + row * product.y.stride;
  const FewRows rows{x.data + row * x.stride, x.stride, x.depth, kFew};
  const int64_t whole = x.depth / HWY_LANES(float) * HWY_LANES(float);
  const StreamAhead ahead = stream_ahead(product.weight.values.dtype, x.count <= kRowsAtOnce);
  for (int64_t j = first; j < last; ++j) {
    const typename Format::Element* lines[kStreams];
    for (int s = 0; s < kStreams; ++s) lines[s] = weights + (j + s * apart) * product.weight.values.stride;
    hn::Vec<F32> sum[kStreams][kFew];
    DotRow<Format, kFew, kStreams>(rows, lines, whole, ahead, sum);
    for (int s = 0; s < kStreams; ++s) {
      const int64_t column = j + s * apart;
      for (int i = 0; i < kFew; ++i) {
        float total = hn::GetLane(hn::SumOfLanes(F32(), sum[s][i]));
        for (int64_t p = whole; p < x.depth; ++p) {
          total = AddProduct(rows.data[i * x.stride + p], Format::Value(lines[s][p]), total);
        }
        y[i * product.y.stride + column] = total + (bias != nullptr ? bias[column] : 0);
      }
    }
  }
}

template <class Format, int kFew>
void DotWeights(const FewRows& x, int64_t row, const WeightProduct& product, int64_t first, int64_t last) {
  const int64_t row_bytes = product.weight.values.stride * static_cast<int64_t>(sizeof(typename Format::Element));
  const int64_t apart = lines_apart(last - first, row_bytes, 1);
  DotStreams<Format, kFew, 2>(x, row, product, first, first + apart, apart);
  DotStreams<Format, kFew, 1>(x, row, product, first + 2 * apart, last, 0);
}

template <class Format>
void MultiplyFew(ConstRows x, std::span<const WeightProduct> products) {
  const FewRows rows{static_cast<const float*>(x.data), x.stride, x.cols, x.rows};
  for_weight_rows(products, 12, [&](const WeightProduct& product, int64_t begin, int64_t end) {
    const int64_t step = x.rows > kRowsAtOnce ? 12 : end - begin;  // 12 rows of weights stay in cache for all of x
    for (int64_t first = begin; first < end; first += step) {
      const int64_t last = std::min(first + step, end);
      int64_t row = 0;
      for (; row + kRowsAtOnce <= x.rows; row += kRowsAtOnce)
        DotWeights<Format, kRowsAtOnce>(rows, row, product, first, last);
      switch (x.rows - row) {
        case 3:
          DotWeights<Format, 3>(rows, row, product, first, last);
          break;
        case 2:
          DotWeights<Format, 2>(rows, row, product, first, last);
          break;
        case 1:
          DotWeights<Format, 1>(rows, row, product, first, last);
          break;
        default:
          break;
      }
    }
  });
}

}  // namespace attend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ATTEND_WEIGHTS_FEW_INL_H_
