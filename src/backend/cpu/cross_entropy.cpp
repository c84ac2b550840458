#include <algorithm>
#include <cmath>
#include <numeric>

#include "backend/cpu/cpu.h"
#include "backend/cpu/dispatch.h"
#include "backend/cpu/memory.h"
#include "backend/cpu/row_pieces.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/cross_entropy.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
#include "backend/cpu/simd_math-inl.h"
#include "backend/cpu/sweep-inl.h"
#include "backend/cpu/with_float-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace attend::cpu::HWY_NAMESPACE {

// Lower bound: memory bandwidth. The forward pass reads the logits once; the backward pass reads them and writes the
// gradient once. Exponentials and sums take about 8 cycles for 32 bytes. They overlap with memory accesses up to 13
// GB/s per core and dominate beyond that.

/// Bytes of logits processed at a time: a chunk stays in L1 in case it is needed twice.
inline constexpr int64_t kChunkBytes = 16384;

/// Sums over one chunk of logits.
template <class T>
struct ChunkSums {
  T max, powers, plain;
};

/// Computes max x, Σ e^(x − shift) and, if kPlain, Σ x in one pass, so that arithmetic overlaps with memory accesses.
template <bool kPlain, class T>
ChunkSums<T> SumChunk(const T* x, int64_t count, T shift) {
  const hn::ScalableTag<T> d;
  const T lowest = -std::numeric_limits<T>::infinity();
  const auto offset = hn::Set(d, shift);
  auto max = hn::Set(d, lowest), powers = hn::Zero(d), plain = hn::Zero(d);
  Sweep(d, count, [&](auto place) {
    const auto v = place.load(x, lowest);
    max = hn::Max(max, v);
    powers = hn::Add(powers, ExpNonPositive(d, hn::Sub(v, offset)));
    if constexpr (kPlain) plain = hn::Add(plain, place.load(x));
  });
  const auto sum = [&](auto v) { return hn::GetLane(hn::SumOfLanes(d, v)); };
  return {hn::GetLane(hn::MaxOfLanes(d, max)), sum(powers), sum(plain)};
}

struct RowSums {
  double log_sum_exp = 0, plain = 0;
};

/// log Σ e^x of a row of any length, read from memory once. The exponentials are relative to a reference, which may be
/// below the maximum by up to kSlack. If a chunk exceeds that, it is computed again with a larger reference and the sum
/// so far is rescaled.
template <bool kPlain, class T>
RowSums SumRow(const T* x, int64_t count) {
  constexpr int64_t kChunk = kChunkBytes / static_cast<int64_t>(sizeof(T));
  constexpr T kSlack = 40;
  T shift = -std::numeric_limits<T>::infinity();
  double powers = 0, plain = 0;
  for (int64_t begin = 0; begin < count; begin += kChunk) {
    const int64_t size = std::min(kChunk, count - begin);
    // There is no reference while all logits were −∞. Take the chunk's maximum, or 0 if that is −∞ as well.
    const bool first = !(shift > -std::numeric_limits<T>::infinity());
    if (first) shift = MaxOfRow(hn::ScalableTag<T>(), x + begin, size);
    const T reference = first && std::isinf(shift) && shift < 0 ? T{0} : shift;
    ChunkSums<T> chunk = SumChunk<kPlain>(x + begin, size, reference);
    if (chunk.max > reference + kSlack) {
      powers *= std::exp(static_cast<double>(shift) - static_cast<double>(chunk.max));
      shift = chunk.max;
      chunk = SumChunk<kPlain>(x + begin, size, shift);
    }
    powers += static_cast<double>(chunk.powers);
    plain += static_cast<double>(chunk.plain);
  }
  return {static_cast<double>(shift) + std::log(powers), plain};
}

// With smoothed targets t = (1 − ε) onehot + ε / C: −Σ t (x − lse) = lse − (1 − ε) x_target − ε mean(x).
void CrossEntropy(ConstRows x, ConstRows target, const CrossEntropyOptions& options, Rows losses, Rows lse) {
  const auto* targets = static_cast<const int64_t*>(target.data);
  auto* const all = static_cast<double*>(losses.data);
  WithFloat(x.dtype, "cross_entropy", [&](auto type) {
    using T = decltype(type);
    const double smoothing = options.label_smoothing;
    for_each_row(x.rows, x.cols, [&](int64_t row) {
      const T* logits = row_of<T>(x, row);
      const bool ignored = targets[row] == options.ignore_index;
      static_cast<T*>(lse.data)[row] = 0;
      all[row] = 0;
      if (ignored) return;
      const RowSums sums = smoothing > 0 ? SumRow<true>(logits, x.cols) : SumRow<false>(logits, x.cols);
      static_cast<T*>(lse.data)[row] = static_cast<T>(sums.log_sum_exp);
      all[row] = sums.log_sum_exp - (1 - smoothing) * static_cast<double>(logits[targets[row]]);
      if (smoothing > 0) all[row] -= smoothing * sums.plain / static_cast<double>(x.cols);
    });
  });
}

/// Gradients of at least this size are written past the caches: they would be evicted before their next use anyway.
inline constexpr int64_t kStreamingBytes = int64_t{32} << 20;

template <class T>
struct GradientScale {
  T factor, spread;
  bool streaming;
};

/// dx = factor (e^(x − lse) − spread). The caller subtracts the target's share afterwards.
template <class T>
void GradientRow(const T* x, T lse, GradientScale<T> by, T* dx, int64_t count) {
  const hn::ScalableTag<T> d;
  const auto shift = hn::Set(d, lse), scale = hn::Set(d, by.factor), offset = hn::Set(d, -by.factor * by.spread);
  const auto value = [&](auto place) {
    return hn::MulAdd(scale, ExpNonPositive(d, hn::Sub(place.load(x), shift)), offset);
  };
  if (by.streaming)
    SweepStreaming(d, count, dx, value);
  else
    Sweep(d, count, [&](auto place) { place.store(value(place), dx); });
}

void CrossEntropyBackward(ConstRows dloss, ConstRows x, ConstRows target, ConstRows lse, ConstRows count,
                          const CrossEntropyOptions& options, Rows dx) {
  const auto* targets = static_cast<const int64_t*>(target.data);
  WithFloat(x.dtype, "cross_entropy", [&](auto type) {
    using T = decltype(type);
    const double upstream = static_cast<double>(*static_cast<const T*>(dloss.data)) /
                            static_cast<double>(*static_cast<const int64_t*>(count.data));
    const GradientScale<T> by{.factor = static_cast<T>(upstream),
                              .spread = static_cast<T>(options.label_smoothing / static_cast<double>(x.cols)),
                              .streaming = x.numel() * static_cast<int64_t>(sizeof(T)) >= kStreamingBytes};
    for_each_row(x.rows, x.cols, [&](int64_t row) {
      T* const result = row_of<T>(dx, row);
      if (targets[row] == options.ignore_index) {
        std::fill(result, result + x.cols, T{0});
        return;
      }
      GradientRow<T>(row_of<T>(x, row), static_cast<const T*>(lse.data)[row], by, result, x.cols);
      result[targets[row]] -= by.factor * static_cast<T>(1 - options.label_smoothing);
    });
  });
}

}  // namespace attend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend::cpu {
HWY_EXPORT(CrossEntropy);
HWY_EXPORT(CrossEntropyBackward);

void count_targets(ConstRows target, int64_t ignore_index, Rows count) {
  const auto* targets = static_cast<const int64_t*>(target.data);
  *static_cast<int64_t*>(count.data) = target.numel() - std::count(targets, targets + target.numel(), ignore_index);
}
void cross_entropy(ConstRows x, ConstRows target, const CrossEntropyOptions& options, Rows losses, Rows lse) {
  ATTEND_DISPATCH(x.dtype, CrossEntropy)(x, target, options, losses, lse);
}
void mean_loss(ConstRows losses, ConstRows count, Rows loss) {
  const auto* all = static_cast<const double*>(losses.data);
  const int64_t counted = *static_cast<const int64_t*>(count.data);
  const double mean = counted == 0 ? 0 : std::accumulate(all, all + losses.numel(), 0.0) / static_cast<double>(counted);
  with_float(loss.dtype, "cross_entropy", [&](auto type) {
    using T = decltype(type);
    *static_cast<T*>(loss.data) = static_cast<T>(mean);
  });
}
void cross_entropy_backward(ConstRows dloss, ConstRows x, ConstRows target, ConstRows lse, ConstRows count,
                            const CrossEntropyOptions& options, Rows dx) {
  ATTEND_DISPATCH(x.dtype, CrossEntropyBackward)(dloss, x, target, lse, count, options, dx);
}
void cross_entropy_with_gradient(ConstRows x, ConstRows target, ConstRows count, const CrossEntropyOptions& options,
                                 Rows losses, Rows dx) {
  with_float(x.dtype, "cross_entropy", [&](auto type) {
    using T = decltype(type);
    const Scratch<T> memory(x.rows + 1);
    const Rows dloss{memory.data(), x.dtype, 1, 1, 1}, lse{memory.data() + 1, x.dtype, 1, x.rows, x.rows};
    memory.data()[0] = 1;
    cross_entropy(x, target, options, losses, lse);
    cross_entropy_backward(dloss, x, target, lse, count, options, dx);
  });
}
}  // namespace attend::cpu
#endif
