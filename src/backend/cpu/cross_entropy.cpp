#include <cmath>

#include "backend/cpu/cpu.h"
#include "backend/cpu/memory.h"
#include "backend/cpu/row_pieces.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/cross_entropy.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
#include "backend/cpu/simd_math-inl.h"
#include "backend/cpu/sweep-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace attend::cpu::HWY_NAMESPACE {

/// Classes handled at a time: 16 KiB, so that the pass for the maximum leaves them in L1 for the powers.
inline constexpr int64_t kChunkBytes = 16384;

/// log Σ e^x of a row of any length, read from memory once: Σ is kept relative to the largest entry so far and rescaled
/// when a chunk brings a larger one.
template <class T>
double LogSumExp(const T* x, int64_t count) {
  const hn::ScalableTag<T> d;
  const T lowest = -std::numeric_limits<T>::infinity();
  constexpr int64_t kChunk = kChunkBytes / static_cast<int64_t>(sizeof(T));
  T top = lowest;
  double sum = 0;
  for (int64_t begin = 0; begin < count; begin += kChunk) {
    const T* chunk = x + begin;
    const int64_t size = std::min(kChunk, count - begin);
    const T larger = MaxOfRow(d, chunk, size);
    if (larger > top) {
      if (sum > 0) sum *= std::exp(static_cast<double>(top) - static_cast<double>(larger));
      top = larger;
    }
    if (top == lowest) continue;  // nothing but −∞ so far
    const auto shift = hn::Set(d, top);
    sum += static_cast<double>(FoldSum(d, size, [&](auto place, auto total) {
      return hn::Add(total, ExpNonPositive(d, hn::Sub(place.load(chunk, lowest), shift)));
    }));
  }
  return static_cast<double>(top) + std::log(sum);
}

template <class T>
double SumOfRow(const T* x, int64_t count) {
  const hn::ScalableTag<T> d;
  constexpr int64_t kChunk = kChunkBytes / static_cast<int64_t>(sizeof(T));
  double sum = 0;
  for (int64_t begin = 0; begin < count; begin += kChunk) {
    const T* chunk = x + begin;
    sum += static_cast<double>(FoldSum(d, std::min(kChunk, count - begin), [&](auto place, auto total) {
      return hn::Add(total, place.load(chunk));
    }));
  }
  return sum;
}

// With the target spread as t = (1 − ε) onehot + ε / C: −Σ t (x − lse) = lse − (1 − ε) x_target − ε mean(x).
int64_t CrossEntropy(ConstRows x, ConstRows target, const CrossEntropyOptions& options, Rows loss, Rows lse) {
  const auto* targets = static_cast<const int64_t*>(target.data);
  const Scratch<double> losses(x.rows);
  int64_t counted = 0;
  with_float(x.dtype, "cross_entropy", [&](auto type) {
    using T = decltype(type);
    const double smoothing = options.label_smoothing;
    for_each_row(x.rows, x.cols, [&](int64_t row) {
      const T* logits = row_of<T>(x, row);
      const bool ignored = targets[row] == options.ignore_index;
      const double log_sum = ignored ? 0 : LogSumExp(logits, x.cols);
      static_cast<T*>(lse.data)[row] = static_cast<T>(log_sum);
      if (ignored) return;
      losses.data()[row] = log_sum - (1 - smoothing) * static_cast<double>(logits[targets[row]]);
      if (smoothing > 0) losses.data()[row] -= smoothing * SumOfRow(logits, x.cols) / static_cast<double>(x.cols);
    });
    double sum = 0;
    for (int64_t row = 0; row < x.rows; ++row) {
      if (targets[row] == options.ignore_index) continue;
      sum += losses.data()[row];
      ++counted;
    }
    *static_cast<T*>(loss.data) = static_cast<T>(counted == 0 ? 0 : sum / static_cast<double>(counted));
  });
  return counted;
}

/// dx = factor (e^(x − lse) − spread), the target's own share taken off afterwards.
template <class T>
void GradientRow(const T* x, T lse, T factor, T spread, T* dx, int64_t count) {
  const hn::ScalableTag<T> d;
  const auto shift = hn::Set(d, lse), scale = hn::Set(d, factor), offset = hn::Set(d, -factor * spread);
  Sweep(d, count, [&](auto place) {
    place.store(hn::MulAdd(scale, ExpNonPositive(d, hn::Sub(place.load(x), shift)), offset), dx);
  });
}

void CrossEntropyBackward(ConstRows dloss, ConstRows x, ConstRows target, ConstRows lse, int64_t count,
                          const CrossEntropyOptions& options, Rows dx) {
  const auto* targets = static_cast<const int64_t*>(target.data);
  with_float(x.dtype, "cross_entropy", [&](auto type) {
    using T = decltype(type);
    const T factor = static_cast<T>(static_cast<double>(*static_cast<const T*>(dloss.data)) / static_cast<double>(count));
    const T spread = static_cast<T>(options.label_smoothing / static_cast<double>(x.cols));
    for_each_row(x.rows, x.cols, [&](int64_t row) {
      T* const result = row_of<T>(dx, row);
      if (targets[row] == options.ignore_index) {
        std::fill(result, result + x.cols, T{0});
        return;
      }
      GradientRow<T>(row_of<T>(x, row), static_cast<const T*>(lse.data)[row], factor, spread, result, x.cols);
      result[targets[row]] -= factor * static_cast<T>(1 - options.label_smoothing);
    });
  });
}

}  // namespace attend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend::cpu {
HWY_EXPORT(CrossEntropy);
HWY_EXPORT(CrossEntropyBackward);

namespace {

void check_targets(ConstRows target, int64_t classes, int64_t ignore_index) {
  const auto* targets = static_cast<const int64_t*>(target.data);
  for (int64_t i = 0; i < target.numel(); ++i) {
    require<ShapeError>((targets[i] >= 0 && targets[i] < classes) || targets[i] == ignore_index, "cross_entropy: target ",
                        targets[i], " at row ", i, " is not in [0, ", classes, ") nor ignore_index ", ignore_index);
  }
}

}  // namespace

int64_t cross_entropy(ConstRows x, ConstRows target, const CrossEntropyOptions& options, Rows loss, Rows lse) {
  check_targets(target, x.cols, options.ignore_index);
  return HWY_DYNAMIC_DISPATCH(CrossEntropy)(x, target, options, loss, lse);
}
void cross_entropy_backward(ConstRows dloss, ConstRows x, ConstRows target, ConstRows lse, int64_t count,
                            const CrossEntropyOptions& options, Rows dx) {
  HWY_DYNAMIC_DISPATCH(CrossEntropyBackward)(dloss, x, target, lse, count, options, dx);
}
}  // namespace attend::cpu
#endif
