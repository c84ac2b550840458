// Products of a few rows with f32 or bf16 weights, bound by reading the weights once. Included once for each
// instruction set.
#if defined(ATTEND_WEIGHTS_FEW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_WEIGHTS_FEW_INL_H_
#undef ATTEND_WEIGHTS_FEW_INL_H_
#else
#define ATTEND_WEIGHTS_FEW_INL_H_
#endif

#include <hwy/highway.h>

#include "backend/cpu/fetch_ahead.h"
#include "backend/cpu/memory.h"
#include "backend/cpu/weights.h"

HWY_BEFORE_NAMESPACE();
namespace attend::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;

/// Weights that are read as they are.
struct PlainRows {
  using Element = float;
  static constexpr int kVectors = 1;
  static constexpr int64_t kBlock = HWY_LANES(float);
  static HWY_INLINE void Load(const Element* from, hn::Vec<F32> (&to)[kVectors]) { to[0] = hn::LoadU(F32(), from); }
  static HWY_INLINE float Value(Element element) { return element; }
  /// The order in which x is multiplied: element p of a block.
  static constexpr int64_t Place(int64_t p) { return p; }
};

/// bf16: of each word the lower half is an even place and the upper half the odd one after it; a shift and a mask make
/// them f32. So x has the even places of each block first.
struct Bf16Rows {
  using Element = BFloat16;
  static constexpr int kVectors = 2;
  static constexpr int64_t kBlock = 2 * HWY_LANES(float);
  static HWY_INLINE void Load(const Element* from, hn::Vec<F32> (&to)[kVectors]) {
    const hn::ScalableTag<uint16_t> halves;
    const hn::ScalableTag<uint32_t> words;
    const auto pairs = hn::BitCast(words, hn::LoadU(halves, &from->bits));
    to[0] = hn::BitCast(F32(), hn::ShiftLeft<16>(pairs));
    to[1] = hn::BitCast(F32(), hn::And(pairs, hn::Set(words, 0xffff0000u)));
  }
  static HWY_INLINE float Value(Element element) {
    const uint32_t bits = static_cast<uint32_t>(element.bits) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  static constexpr int64_t Place(int64_t p) { return p % 2 * (kBlock / 2) + p / 2; }
};

/// A few rows of x in the order the weights are multiplied; what is over whole blocks stays as it is.
struct FewRows {
  const float* data;
  int64_t stride, depth, count;
};

/// sum[i] += x_i · weights, whole blocks only and still in lanes, for kFew rows of x. One row of weights at a time:
/// memory is read in a single stream, in order. Two rows side by side are read at two thirds of its rate, four at half.
template <class Format, int kFew>
HWY_INLINE void DotRow(const FewRows& x, const typename Format::Element* weights, int64_t whole, StreamAhead ahead,
                       hn::Vec<F32> (&sum)[kFew]) {
  constexpr int kVectors = Format::kVectors, kChains = kFew > 2 ? 1 : kFew > 1 ? 2 : 4;
  constexpr int64_t kBlock = Format::kBlock, kLanes = kBlock / kVectors, kBytes = sizeof(typename Format::Element);
  const F32 d;
  hn::Vec<F32> part[kChains][kFew];
  HWY_UNROLL(4) for (int c = 0; c < kChains; ++c) {
    HWY_UNROLL(4) for (int i = 0; i < kFew; ++i) part[c][i] = hn::Zero(d);
  }
  int64_t p = 0;
  for (; p + kChains * kBlock <= whole; p += kChains * kBlock) {
    HWY_UNROLL(4) for (int c = 0; c < kChains; ++c) {
      const int64_t at = p + c * kBlock;
      if (c * kBlock * kBytes % 64 == 0) ahead.fetch(weights + at);
      hn::Vec<F32> weight[kVectors];
      Format::Load(weights + at, weight);
      HWY_UNROLL(4) for (int i = 0; i < kFew; ++i) {
        HWY_UNROLL(2) for (int v = 0; v < kVectors; ++v) {
          part[c][i] = hn::MulAdd(hn::LoadU(d, x.data + i * x.stride + at + v * kLanes), weight[v], part[c][i]);
        }
      }
    }
  }
  for (; p < whole; p += kBlock) {
    hn::Vec<F32> weight[kVectors];
    Format::Load(weights + p, weight);
    HWY_UNROLL(4) for (int i = 0; i < kFew; ++i) {
      HWY_UNROLL(2) for (int v = 0; v < kVectors; ++v) {
        part[0][i] = hn::MulAdd(hn::LoadU(d, x.data + i * x.stride + p + v * kLanes), weight[v], part[0][i]);
      }
    }
  }
  HWY_UNROLL(4) for (int i = 0; i < kFew; ++i) {
    sum[i] = part[0][i];
    HWY_UNROLL(4) for (int c = 1; c < kChains; ++c) sum[i] = hn::Add(sum[i], part[c][i]);
  }
}

/// kFew rows of x, from `row` on, with rows [first, last) of a product's weights, written to y.
template <class Format, int kFew>
void DotWeights(const FewRows& x, int64_t row, const WeightProduct& product, int64_t first, int64_t last) {
  const auto* weights = static_cast<const typename Format::Element*>(product.weight.values.data);
  const auto* bias = static_cast<const float*>(product.bias.data);
  auto* y = static_cast<float*>(product.y.data) + row * product.y.stride;
  const FewRows rows{x.data + row * x.stride, x.stride, x.depth, kFew};
  const int64_t whole = x.depth / Format::kBlock * Format::kBlock;
  const StreamAhead ahead = stream_ahead(product.weight.values.dtype, x.count <= kRowsAtOnce);
  for (int64_t j = first; j < last; ++j) {
    const auto* line = weights + j * product.weight.values.stride;
    hn::Vec<F32> sum[kFew];
    DotRow<Format, kFew>(rows, line, whole, ahead, sum);
    for (int i = 0; i < kFew; ++i) {
      float total = hn::GetLane(hn::SumOfLanes(F32(), sum[i]));
      for (int64_t p = whole; p < x.depth; ++p) total += rows.data[i * x.stride + p] * Format::Value(line[p]);
      y[i * product.y.stride + j] = total + (bias != nullptr ? bias[j] : 0);
    }
  }
}

template <class Format>
void MultiplyFew(ConstRows x, std::span<const WeightProduct> products) {
  const Scratch<float> ordered(x.rows * x.cols);
  for (int64_t i = 0; i < x.rows; ++i) {
    const float* from = static_cast<const float*>(x.data) + i * x.stride;
    float* to = ordered.data() + i * x.cols;
    const int64_t whole = x.cols / Format::kBlock * Format::kBlock;
    for (int64_t block = 0; block < whole; block += Format::kBlock) {
      for (int64_t p = 0; p < Format::kBlock; ++p) to[block + Format::Place(p)] = from[block + p];
    }
    std::copy(from + whole, from + x.cols, to + whole);
  }
  const FewRows rows{ordered.data(), x.cols, x.cols, x.rows};
  for_weight_rows(products, 12, [&](const WeightProduct& product, int64_t begin, int64_t end) {
    const int64_t step = x.rows > 4 ? 12 : end - begin;  // a dozen rows stay in cache for all of x
    for (int64_t first = begin; first < end; first += step) {
      const int64_t last = std::min(first + step, end);
      int64_t row = 0;
      for (; row + 4 <= x.rows; row += 4) DotWeights<Format, 4>(rows, row, product, first, last);
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
