// Products of a few rows with f32 or bf16 weights, bound by reading the weights once. Included once for each
// instruction set.
#if defined(ATTEND_WEIGHTS_FEW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_WEIGHTS_FEW_INL_H_
#undef ATTEND_WEIGHTS_FEW_INL_H_
#else
#define ATTEND_WEIGHTS_FEW_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

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
  int64_t stride, depth;
};

/// y[i][j] = x_i · weight_j for kFew × kMany rows.
template <class Format, int kFew, int kMany>
HWY_INLINE void DotRows(const FewRows& x, const typename Format::Element* weights, int64_t weight_row,
                        float (&result)[kFew][kMany]) {
  constexpr int kVectors = Format::kVectors;
  constexpr int64_t kBlock = Format::kBlock, kLanes = kBlock / kVectors;
  constexpr int64_t kAhead = kWeightsAhead / static_cast<int64_t>(sizeof(typename Format::Element));
  const F32 d;
  hn::Vec<F32> sum[kFew][kMany];
  HWY_UNROLL(4) for (int i = 0; i < kFew; ++i) {
    HWY_UNROLL(4) for (int j = 0; j < kMany; ++j) sum[i][j] = hn::Zero(d);
  }
  int64_t p = 0;
  for (; p + kBlock <= x.depth; p += kBlock) {
    HWY_UNROLL(4) for (int j = 0; j < kMany; ++j) {
      const auto* line = weights + j * weight_row + p;
      hwy::Prefetch(line + kAhead);
      hn::Vec<F32> weight[kVectors];
      Format::Load(line, weight);
      HWY_UNROLL(4) for (int i = 0; i < kFew; ++i) {
        HWY_UNROLL(2) for (int v = 0; v < kVectors; ++v) {
          sum[i][j] = hn::MulAdd(hn::LoadU(d, x.data + i * x.stride + p + v * kLanes), weight[v], sum[i][j]);
        }
      }
    }
  }
  for (int i = 0; i < kFew; ++i) {
    for (int j = 0; j < kMany; ++j) {
      float total = hn::GetLane(hn::SumOfLanes(d, sum[i][j]));
      for (int64_t rest = p; rest < x.depth; ++rest) {
        total += x.data[i * x.stride + rest] * Format::Value(weights[j * weight_row + rest]);
      }
      result[i][j] = total;
    }
  }
}

/// One row of x with one row of weights: memory is read in one stream, in order, which the hardware follows best.
/// Whole blocks only; the sum is still in lanes.
template <class Format>
HWY_INLINE hn::Vec<F32> DotRow(const float* x, const typename Format::Element* weights, int64_t depth) {
  constexpr int kVectors = Format::kVectors, kChains = 4;
  constexpr int64_t kBlock = Format::kBlock, kLanes = kBlock / kVectors;
  constexpr int64_t kAhead = kWeightsAhead / static_cast<int64_t>(sizeof(typename Format::Element));
  const F32 d;
  hn::Vec<F32> sum[kChains][kVectors];
  HWY_UNROLL(4) for (int i = 0; i < kChains; ++i) {
    HWY_UNROLL(2) for (int v = 0; v < kVectors; ++v) sum[i][v] = hn::Zero(d);
  }
  const auto add = [&](int64_t p, int chain) HWY_ATTR {
    hwy::Prefetch(weights + p + kAhead);
    hn::Vec<F32> weight[kVectors];
    Format::Load(weights + p, weight);
    HWY_UNROLL(2) for (int v = 0; v < kVectors; ++v) {
      sum[chain][v] = hn::MulAdd(hn::LoadU(d, x + p + v * kLanes), weight[v], sum[chain][v]);
    }
  };
  int64_t p = 0;
  for (; p + kChains * kBlock <= depth; p += kChains * kBlock) {
    HWY_UNROLL(4) for (int i = 0; i < kChains; ++i) add(p + i * kBlock, i);
  }
  for (; p + kBlock <= depth; p += kBlock) add(p, 0);
  auto all = hn::Zero(d);
  HWY_UNROLL(4) for (int i = 0; i < kChains; ++i) {
    HWY_UNROLL(2) for (int v = 0; v < kVectors; ++v) all = hn::Add(all, sum[i][v]);
  }
  return all;
}

template <class Format>
void DotOneRow(const FewRows& x, const WeightProduct& product, int64_t first, int64_t last) {
  const auto* weights = static_cast<const typename Format::Element*>(product.weight.values.data);
  const auto* bias = static_cast<const float*>(product.bias.data);
  auto* y = static_cast<float*>(product.y.data);
  const int64_t stride = product.weight.values.stride, whole = x.depth / Format::kBlock * Format::kBlock;
  for (int64_t j = first; j < last; ++j) {
    const auto* line = weights + j * stride;
    float total = hn::GetLane(hn::SumOfLanes(F32(), DotRow<Format>(x.data, line, whole)));
    for (int64_t p = whole; p < x.depth; ++p) total += x.data[p] * Format::Value(line[p]);
    y[j] = total + (bias != nullptr ? bias[j] : 0);
  }
}

/// The same with rows [first, last) of a product's weights, written to y.
template <class Format, int kFew>
void DotWeights(const FewRows& x, int64_t row, const WeightProduct& product, int64_t first, int64_t last) {
  constexpr int kMany = kFew > 1 ? 3 : 4;  // at most 12 sums: with two vectors of weights and one of x, 15 registers
  const auto* weights = static_cast<const typename Format::Element*>(product.weight.values.data);
  const int64_t weight_row = product.weight.values.stride;
  const auto* bias = static_cast<const float*>(product.bias.data);
  auto* y = static_cast<float*>(product.y.data) + row * product.y.stride;
  const FewRows rows{x.data + row * x.stride, x.stride, x.depth};
  const auto take = [&](auto width, int64_t j) {
    float result[kFew][width()];
    DotRows<Format, kFew, width()>(rows, weights + j * weight_row, weight_row, result);
    for (int i = 0; i < kFew; ++i) {
      for (int n = 0; n < width(); ++n) {
        y[i * product.y.stride + j + n] = result[i][n] + (bias != nullptr ? bias[j + n] : 0);
      }
    }
  };
  int64_t j = first;
  for (; j + kMany <= last; j += kMany) take(std::integral_constant<int, kMany>(), j);
  for (; j < last; ++j) take(std::integral_constant<int, 1>(), j);
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
  const FewRows rows{ordered.data(), x.cols, x.cols};
  for_weight_rows(products, 12, [&](const WeightProduct& product, int64_t begin, int64_t end) {
    if (x.rows == 1) return DotOneRow<Format>(rows, product, begin, end);
    for (int64_t first = begin; first < end; first += 12) {  // a dozen rows stay in cache for all of x
      const int64_t last = std::min(first + 12, end);
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
