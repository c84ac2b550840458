#include <algorithm>
#include <cmath>
#include <functional>

#include "backend/cpu/cpu.h"
#include "backend/cpu/dispatch.h"
#include "backend/cpu/memory.h"
#include "backend/cpu/row_pieces.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/norm.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
#include "backend/cpu/sweep-inl.h"
#include "backend/cpu/with_float-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace attend::cpu::HWY_NAMESPACE {

// Lower bound: memory bandwidth. Forward reads x and writes y; backward reads dy and x and writes dx. All other passes
// run over L1. While the tensors fit into L3, both run at L3 bandwidth.

/// Statistics of one row. RMS norm has mean 0.
template <class T>
struct RowStatistics {
  T mean = 0, rstd = 0;
};

/// Computes the mean first, then Σ (x − mean)², which avoids cancellation. The row is in L1 for the second pass.
template <bool kCentred, class T>
RowStatistics<T> Measure(const T* x, int64_t count, double eps) {
  const hn::ScalableTag<T> d;
  T mean = 0;
  if constexpr (kCentred) {
    mean = FoldSum(d, count, [&](auto place, auto sum) { return hn::Add(sum, place.load(x)); }) / static_cast<T>(count);
  }
  const auto centre = hn::Set(d, mean);
  const T squares = FoldSum(d, count, [&](auto place, auto sum) {
    const auto difference = hn::Sub(place.load(x, mean), centre);
    return hn::MulAdd(difference, difference, sum);
  });
  const T variance = squares / static_cast<T>(count);
  return {mean, T{1} / std::sqrt(variance + static_cast<T>(eps))};
}

/// y = (x − mean) · rstd · weight + bias; weight and bias may be null.
template <class T>
void NormaliseRow(const T* x, const T* weight, const T* bias, RowStatistics<T> row, T* y, int64_t count) {
  const hn::ScalableTag<T> d;
  const auto mean = hn::Set(d, row.mean), rstd = hn::Set(d, row.rstd);
  const auto normal = [&](auto place) { return hn::Mul(hn::Sub(place.load(x), mean), rstd); };
  if (weight && bias) {
    Sweep(d, count,
          [&](auto place) { place.store(hn::MulAdd(normal(place), place.load(weight), place.load(bias)), y); });
  } else if (weight) {
    Sweep(d, count, [&](auto place) { place.store(hn::Mul(normal(place), place.load(weight)), y); });
  } else if (bias) {
    Sweep(d, count, [&](auto place) { place.store(hn::Add(normal(place), place.load(bias)), y); });
  } else {
    Sweep(d, count, [&](auto place) { place.store(normal(place), y); });
  }
}

template <bool kCentred>
void NormForward(ConstRows x, ConstRows weight, ConstRows bias, double eps, Rows y, Rows mean, Rows rstd) {
  WithFloat(y.dtype, "norm", [&](auto type) {
    using T = decltype(type);
    for_each_row(x.rows, x.cols, [&](int64_t row) {
      const auto statistics = Measure<kCentred>(row_of<T>(x, row), x.cols, eps);
      if (mean) static_cast<T*>(mean.data)[row] = statistics.mean;
      static_cast<T*>(rstd.data)[row] = statistics.rstd;
      NormaliseRow<T>(row_of<T>(x, row), static_cast<const T*>(weight.data), static_cast<const T*>(bias.data),
                      statistics, row_of<T>(y, row), x.cols);
    });
  });
}

/// Sums of one task of the backward pass over its rows: dweight (dy · x̂) and dbias (dy); null: not needed.
template <class T>
struct ParameterSums {
  T* weight = nullptr;
  T* bias = nullptr;
};

/// Σ g and Σ g (x − mean) of a row, with g = dy · weight. The pass that computes them brings dy and x into L1 and also
/// adds the row's shares of the parameter gradients.
template <class T>
struct UpstreamSums {
  T plain, moment;
};
template <bool kWeighted, bool kToWeight, bool kToBias, class T>
UpstreamSums<T> SumUpstream(const T* dy, const T* x, const T* weight, RowStatistics<T> row, ParameterSums<T> sums,
                            int64_t count) {
  const hn::ScalableTag<T> d;
  const auto mean = hn::Set(d, row.mean), rstd = hn::Set(d, row.rstd);
  auto plain = hn::Zero(d), moment = hn::Zero(d);
  Sweep(d, count, [&](auto place) {
    const auto upstream = place.load(dy), centred = hn::Sub(place.load(x), mean);
    auto g = upstream;
    if constexpr (kWeighted) g = hn::Mul(g, place.load(weight));
    plain = hn::Add(plain, g);
    moment = hn::MulAdd(g, centred, moment);
    if constexpr (kToWeight) {
      place.store(hn::MulAdd(upstream, hn::Mul(centred, rstd), place.load(sums.weight)), sums.weight);
    }
    if constexpr (kToBias) place.store(hn::Add(upstream, place.load(sums.bias)), sums.bias);
  });
  return {hn::GetLane(hn::SumOfLanes(d, plain)), hn::GetLane(hn::SumOfLanes(d, moment))};
}

template <class T>
UpstreamSums<T> SumUpstream(const T* dy, const T* x, const T* weight, RowStatistics<T> row, ParameterSums<T> sums,
                            int64_t count) {
  const auto to_bias = [&]<bool kWeighted, bool kToWeight>() {
    return sums.bias ? SumUpstream<kWeighted, kToWeight, true>(dy, x, weight, row, sums, count)
                     : SumUpstream<kWeighted, kToWeight, false>(dy, x, weight, row, sums, count);
  };
  if (weight)
    return sums.weight ? to_bias.template operator()<true, true>() : to_bias.template operator()<true, false>();
  return sums.weight ? to_bias.template operator()<false, true>() : to_bias.template operator()<false, false>();
}

/// dx = rstd (g − mean(g) − x̂ mean(g x̂)); RMS norm has no mean(g).
template <bool kCentred, class T>
void InputGradientRow(const T* dy, const T* x, const T* weight, RowStatistics<T> row, UpstreamSums<T> sums, T* dx,
                      int64_t count) {
  const hn::ScalableTag<T> d;
  const auto n = static_cast<T>(count);
  const auto mean = hn::Set(d, row.mean), rstd = hn::Set(d, row.rstd);
  // x̂ mean(g x̂) = (x − mean) · rstd² Σ g (x − mean) / n.
  const auto slope = hn::Set(d, row.rstd * row.rstd * sums.moment / n);
  const auto level = hn::Set(d, kCentred ? sums.plain / n : T{0});
  const auto write = [&](auto place, auto g) {
    const auto centred = hn::NegMulAdd(hn::Sub(place.load(x), mean), slope, hn::Sub(g, level));
    place.store(hn::Mul(centred, rstd), dx);
  };
  if (weight)
    Sweep(d, count, [&](auto place) { write(place, hn::Mul(place.load(dy), place.load(weight))); });
  else
    Sweep(d, count, [&](auto place) { write(place, place.load(dy)); });
}

/// Rows of one task of a backward pass. Each task has its own sums of parameter gradients; at most 64 of them are added
/// up afterwards, in order. The cut depends on the shape alone.
inline int64_t RowsPerBlock(int64_t rows) { return std::max<int64_t>(16, (rows + 63) / 64); }

/// total[c] = Σ_b partial[b, c].
template <class T>
void AddBlocks(const T* partial, int64_t blocks, int64_t stride, T* total, int64_t count) {
  parallel_ranges(count, 512, [&](int64_t begin, int64_t end) {
    std::fill(total + begin, total + end, T{0});
    for (int64_t block = 0; block < blocks; ++block) {
      const T* from = partial + block * stride;
      for (int64_t i = begin; i < end; ++i) total[i] += from[i];
    }
  });
}

template <bool kCentred>
void NormBackward(ConstRows dy, ConstRows x, ConstRows weight, ConstRows mean, ConstRows rstd, ConstRows added, Rows dx,
                  Rows dweight, Rows dbias) {
  WithFloat(x.dtype, "norm", [&](auto type) {
    using T = decltype(type);
    const int64_t per_block = RowsPerBlock(x.rows), blocks = (x.rows + per_block - 1) / per_block;
    const int64_t stride = ((dweight ? 1 : 0) + (dbias ? 1 : 0)) * x.cols;
    const Scratch<T> partial(blocks * stride);
    parallel_for(blocks, [&](int64_t block) {
      T* const own = partial.data() + block * stride;
      std::fill(own, own + stride, T{0});
      const ParameterSums<T> sums{dweight ? own : nullptr, dbias ? own + stride - x.cols : nullptr};
      const T* const scale = static_cast<const T*>(weight.data);
      const Scratch<T> own_dx(added ? x.cols : 0);
      for (int64_t row = block * per_block; row < std::min(x.rows, (block + 1) * per_block); ++row) {
        const RowStatistics<T> statistics{mean ? static_cast<const T*>(mean.data)[row] : T{0},
                                          static_cast<const T*>(rstd.data)[row]};
        const T *row_dy = row_of<T>(dy, row), *row_x = row_of<T>(x, row);
        const UpstreamSums<T> upstream = SumUpstream(row_dy, row_x, scale, statistics, sums, x.cols);
        if (!dx) continue;
        T* const row_dx = added ? own_dx.data() : row_of<T>(dx, row);
        InputGradientRow<kCentred>(row_dy, row_x, scale, statistics, upstream, row_dx, x.cols);
        if (added) {
          const T* const before = row_of<T>(added, row);
          std::transform(before, before + x.cols, row_dx, row_of<T>(dx, row), std::plus<T>());
        }
      }
    });
    if (dweight) AddBlocks(partial.data(), blocks, stride, static_cast<T*>(dweight.data), x.cols);
    if (dbias) AddBlocks(partial.data() + stride - x.cols, blocks, stride, static_cast<T*>(dbias.data), x.cols);
  });
}

void LayerForward(ConstRows x, ConstRows weight, ConstRows bias, double eps, Rows y, Rows mean, Rows rstd) {
  NormForward<true>(x, weight, bias, eps, y, mean, rstd);
}
void LayerBackward(ConstRows dy, ConstRows x, ConstRows weight, ConstRows mean, ConstRows rstd, ConstRows added,
                   Rows dx, Rows dweight, Rows dbias) {
  NormBackward<true>(dy, x, weight, mean, rstd, added, dx, dweight, dbias);
}
void RmsForward(ConstRows x, ConstRows weight, double eps, Rows y, Rows rstd) {
  NormForward<false>(x, weight, {}, eps, y, {}, rstd);
}
void RmsBackward(ConstRows dy, ConstRows x, ConstRows weight, ConstRows rstd, ConstRows added, Rows dx, Rows dweight) {
  NormBackward<false>(dy, x, weight, {}, rstd, added, dx, dweight, {});
}

}  // namespace attend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend::cpu {
HWY_EXPORT(LayerForward);
HWY_EXPORT(LayerBackward);
HWY_EXPORT(RmsForward);
HWY_EXPORT(RmsBackward);
void layer_norm(ConstRows x, ConstRows weight, ConstRows bias, double eps, Rows y, Rows mean, Rows rstd) {
  ATTEND_DISPATCH(y.dtype, LayerForward)(x, weight, bias, eps, y, mean, rstd);
}
void layer_norm_backward(ConstRows dy, ConstRows x, ConstRows weight, ConstRows mean, ConstRows rstd, ConstRows added,
                         Rows dx, Rows dweight, Rows dbias) {
  ATTEND_DISPATCH(x.dtype, LayerBackward)(dy, x, weight, mean, rstd, added, dx, dweight, dbias);
}
void rms_norm(ConstRows x, ConstRows weight, double eps, Rows y, Rows rstd) {
  ATTEND_DISPATCH(y.dtype, RmsForward)(x, weight, eps, y, rstd);
}
void rms_norm_backward(ConstRows dy, ConstRows x, ConstRows weight, ConstRows rstd, ConstRows added, Rows dx,
                       Rows dweight) {
  ATTEND_DISPATCH(x.dtype, RmsBackward)(dy, x, weight, rstd, added, dx, dweight);
}
}  // namespace attend::cpu
#endif
