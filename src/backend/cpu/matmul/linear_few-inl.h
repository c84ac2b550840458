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
#include "backend/cpu/matmul/matmul_cuts-inl.h"
#include "backend/cpu/matmul/matmul_tile-inl.h"
#include "backend/cpu/matmul/square-inl.h"

// Each sum has the order of BlockedProduct with `invariant`, hence the same bits: one chain of FMAs along k, cut at the
// same places. Lanes are rows of weights. A square of weights is transposed in registers, which takes less time than
// reading it from memory.
HWY_BEFORE_NAMESPACE();
namespace attend::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// A few rows of x.
struct FewRows {
  const float* data;
  int64_t stride, depth;
};

/// Prefetches weights while a group is multiplied: the next group in order of memory, or, if groups are too large for
/// L2, the same rows further on.
struct GroupAhead {
  static constexpr int64_t kMostBytes = 192 << 10, kRowBytes = 1024;
  int64_t bytes;  // of a group; 0: prefetch nothing
  // Forced inline: GCC treats a function that only prefetches as free of effects and drops its calls.
  [[gnu::always_inline]] void fetch(const void* group, const void* at, int64_t stride_bytes, int64_t square) const {
    if (bytes == 0) return;
    if (bytes <= kMostBytes) {
      const char* next = static_cast<const char*>(group) + bytes + square * kGroup * (4 * kGroup);
      for (int64_t line = 0; line < 4 * kGroup * kGroup; line += 64) __builtin_prefetch(next + line, 0, 2);
    } else if (square % (16 / kGroup) == 0) {
      const char* further = static_cast<const char*>(at) + kRowBytes;
      for (int64_t row = 0; row < kGroup; ++row) __builtin_prefetch(further + row * stride_bytes, 0, 2);
    }
  }
};

/// The products of kFew rows of x with a group of weights, without bias: total[i] has one lane for each row of weights.
template <class Format, int kFew>
HWY_INLINE void MultiplyGroup(const FewRows& x, const WeightGroup<typename Format::Element>& group, GroupAhead ahead,
                              hn::Vec<F32> (&total)[kFew]) {
  constexpr int64_t kSquare = kGroup * Format::kPerWord;  // elements of k in a square
  constexpr int64_t kBytes = sizeof(typename Format::Element);
  const F32 d;
  const Blocks parts(x.depth, kMostDepth, 8);
  HWY_UNROLL(8) for (int i = 0; i < kFew; ++i) total[i] = hn::Zero(d);
  for (int64_t part = 0; part < parts.count; ++part) {
    const int64_t begin = parts.begin(part), end = parts.end(part), chain = Blocks(end - begin, kChain, 8).size;
    hn::Vec<F32> before[kFew];  // the sum of the part's earlier chains
    HWY_UNROLL(8) for (int i = 0; i < kFew; ++i) before[i] = hn::Zero(d);
    for (int64_t first = begin; first < end; first += chain) {
      const int64_t last = HWY_MIN(first + chain, end);
      hn::Vec<F32> sum[kFew];
      HWY_UNROLL(8) for (int i = 0; i < kFew; ++i) sum[i] = hn::Zero(d);
      for (int64_t p = first; p < last; p += kSquare) {
        const WeightGroup<typename Format::Element> square{group.data + p, group.stride, group.rows};
        ahead.fetch(group.data, square.data, group.stride * kBytes, p / kSquare);
        if (p + kSquare <= last && group.rows == kGroup) {
          AddSquare<Format, kFew, true>(x.data + p, x.stride, square, kSquare, sum);
        } else {
          AddSquare<Format, kFew, false>(x.data + p, x.stride, square, HWY_MIN(kSquare, last - p), sum);
        }
      }
      HWY_UNROLL(8) for (int i = 0; i < kFew; ++i) before[i] = first == begin ? sum[i] : hn::Add(sum[i], before[i]);
    }
    HWY_UNROLL(8) for (int i = 0; i < kFew; ++i) total[i] = part == 0 ? before[i] : hn::Add(before[i], total[i]);
  }
}

/// Multiplies kFew rows of x, from `row` on, with rows [first, last) of a product's weights. Writes the results to y.
template <class Format, int kFew>
void MultiplyLines(ConstRows x, int64_t row, const WeightProduct& product, int64_t first, int64_t last) {
  using Element = typename Format::Element;
  const F32 d;
  const ConstRows& values = product.weight.values;
  const auto* bias = static_cast<const float*>(product.bias.data);
  const FewRows few{static_cast<const float*>(x.data) + row * x.stride, x.stride, x.cols};
  const GroupAhead ahead{row > 0 ? 0 : kGroup * values.stride * static_cast<int64_t>(sizeof(Element))};
  for (int64_t j = first; j < last; j += kGroup) {
    const WeightGroup<Element> group{static_cast<const Element*>(values.data) + j * values.stride, values.stride,
                                     HWY_MIN(kGroup, last - j)};
    hn::Vec<F32> total[kFew];
    MultiplyGroup<Format, kFew>(few, group, ahead, total);
    auto* y = static_cast<float*>(product.y.data) + row * product.y.stride + j;
    if (group.rows == kGroup) {
      const auto more = bias != nullptr ? hn::LoadU(d, bias + j) : hn::Zero(d);
      for (int i = 0; i < kFew; ++i) {
        hn::StoreU(bias != nullptr ? hn::Add(total[i], more) : total[i], d, y + i * product.y.stride);
      }
      continue;
    }
    for (int i = 0; i < kFew; ++i) {
      HWY_ALIGN float lanes[kGroup];
      hn::Store(total[i], d, lanes);
      for (int64_t r = 0; r < group.rows; ++r) {
        y[i * product.y.stride + r] = bias != nullptr ? lanes[r] + bias[j + r] : lanes[r];
      }
    }
  }
}

/// Rows of x that are multiplied at once: their sums and a square of weights fill the registers.
inline constexpr int kFewAtOnce = kGroup == 16 ? 8 : 4;

/// MultiplyLines for a number of rows known only at run time, up to kFew.
template <class Format, int kFew>
void MultiplyLinesOf(int64_t rows, ConstRows x, int64_t row, const WeightProduct& product, int64_t first,
                     int64_t last) {
  if constexpr (kFew > 1) {
    if (rows < kFew) return MultiplyLinesOf<Format, kFew - 1>(rows, x, row, product, first, last);
  }
  MultiplyLines<Format, kFew>(x, row, product, first, last);
}

template <class Format>
void MultiplyFew(ConstRows x, std::span<const WeightProduct> products) {
  for_weight_rows(products, kGroup, [&](const WeightProduct& product, int64_t begin, int64_t end) {
    const int64_t step = x.rows > kFewAtOnce ? kGroup : end - begin;  // a group stays in cache for all of x
    for (int64_t first = begin; first < end; first += step) {
      for (int64_t row = 0; row < x.rows; row += kFewAtOnce) {
        MultiplyLinesOf<Format, kFewAtOnce>(std::min<int64_t>(kFewAtOnce, x.rows - row), x, row, product, first,
                                            std::min(first + step, end));
      }
    }
  });
}

}  // namespace attend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ATTEND_WEIGHTS_FEW_INL_H_
