#include <cmath>

#include "backend/cpu/cpu.h"
#include "backend/cpu/memory.h"
#include "backend/cpu/row_pieces.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/norm.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
#include "backend/cpu/sweep-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace attend::cpu::HWY_NAMESPACE {

/// One row's statistics; RMS norm has mean 0.
template <class T>
struct RowStatistics {
  T mean = 0, rstd = 0;
};

/// The mean first, then Σ (x − mean)²: the row is in L1 by then, and nothing cancels.
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
    Sweep(d, count, [&](auto place) { place.store(hn::MulAdd(normal(place), place.load(weight), place.load(bias)), y); });
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
  with_float(y.dtype, "norm", [&](auto type) {
    using T = decltype(type);
    for_each_row(x.rows, x.cols, [&](int64_t row) {
      const auto statistics = Measure<kCentred>(row_of<T>(x, row), x.cols, eps);
      if (mean) static_cast<T*>(mean.data)[row] = statistics.mean;
      static_cast<T*>(rstd.data)[row] = statistics.rstd;
      NormaliseRow<T>(row_of<T>(x, row), static_cast<const T*>(weight.data), static_cast<const T*>(bias.data), statistics,
                   row_of<T>(y, row), x.cols);
    });
  });
}

/// Adds this row's share to dweight (dy · x̂) and dbias (dy), each null where it is not wanted.
template <class T>
void AddParameterGradients(const T* dy, const T* x, RowStatistics<T> row, T* dweight, T* dbias, int64_t count) {
  const hn::ScalableTag<T> d;
  const auto mean = hn::Set(d, row.mean), rstd = hn::Set(d, row.rstd);
  if (dweight) {
    Sweep(d, count, [&](auto place) {
      const auto normal = hn::Mul(hn::Sub(place.load(x), mean), rstd);
      place.store(hn::MulAdd(place.load(dy), normal, place.load(dweight)), dweight);
    });
  }
  if (dbias) Sweep(d, count, [&](auto place) { place.store(hn::Add(place.load(dbias), place.load(dy)), dbias); });
}

/// With g = dy · weight: dx = rstd (g − mean(g) − x̂ mean(g x̂)); RMS norm has no mean(g).
template <bool kCentred, class T>
void InputGradientRow(const T* dy, const T* x, const T* weight, RowStatistics<T> row, T* dx, int64_t count) {
  const hn::ScalableTag<T> d;
  const auto mean = hn::Set(d, row.mean), rstd = hn::Set(d, row.rstd);
  const auto upstream = [&](auto place) {
    return weight ? hn::Mul(place.load(dy), place.load(weight)) : place.load(dy);
  };
  T mean_g = 0;
  if constexpr (kCentred) {
    mean_g = FoldSum(d, count, [&](auto place, auto sum) { return hn::Add(sum, upstream(place)); }) / static_cast<T>(count);
  }
  const T dot = FoldSum(d, count, [&](auto place, auto sum) {
    return hn::MulAdd(upstream(place), hn::Sub(place.load(x), mean), sum);
  });
  // x̂ mean(g x̂) = (x − mean) · rstd² · dot / count.
  const auto slope = hn::Set(d, row.rstd * row.rstd * dot / static_cast<T>(count));
  const auto level = hn::Set(d, mean_g);
  Sweep(d, count, [&](auto place) {
    const auto centred = hn::NegMulAdd(hn::Sub(place.load(x), mean), slope, hn::Sub(upstream(place), level));
    place.store(hn::Mul(centred, rstd), dx);
  });
}

/// Rows in one task of a backward pass: each keeps its own sums for the parameters, and at most 64 of those are added up
/// afterwards, in order. Cut by shape alone.
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
void NormBackward(ConstRows dy, ConstRows x, ConstRows weight, ConstRows mean, ConstRows rstd, Rows dx, Rows dweight,
                  Rows dbias) {
  with_float(x.dtype, "norm", [&](auto type) {
    using T = decltype(type);
    const int64_t per_block = RowsPerBlock(x.rows), blocks = (x.rows + per_block - 1) / per_block;
    const int64_t sums = (dweight ? 1 : 0) + (dbias ? 1 : 0), stride = sums * x.cols;
    const Scratch<T> partial(blocks * stride);
    parallel_for(blocks, [&](int64_t block) {
      T* const own = partial.data() + block * stride;
      std::fill(own, own + stride, T{0});
      T* const own_weight = dweight ? own : nullptr;
      T* const own_bias = dbias ? own + stride - x.cols : nullptr;
      for (int64_t row = block * per_block; row < std::min(x.rows, (block + 1) * per_block); ++row) {
        const RowStatistics<T> statistics{mean ? static_cast<const T*>(mean.data)[row] : T{0},
                                          static_cast<const T*>(rstd.data)[row]};
        const T *row_dy = row_of<T>(dy, row), *row_x = row_of<T>(x, row);
        AddParameterGradients(row_dy, row_x, statistics, own_weight, own_bias, x.cols);
        if (dx) {
          InputGradientRow<kCentred>(row_dy, row_x, static_cast<const T*>(weight.data), statistics, row_of<T>(dx, row),
                                     x.cols);
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
void LayerBackward(ConstRows dy, ConstRows x, ConstRows weight, ConstRows mean, ConstRows rstd, Rows dx, Rows dweight,
                   Rows dbias) {
  NormBackward<true>(dy, x, weight, mean, rstd, dx, dweight, dbias);
}
void RmsForward(ConstRows x, ConstRows weight, double eps, Rows y, Rows rstd) {
  NormForward<false>(x, weight, {}, eps, y, {}, rstd);
}
void RmsBackward(ConstRows dy, ConstRows x, ConstRows weight, ConstRows rstd, Rows dx, Rows dweight) {
  NormBackward<false>(dy, x, weight, {}, rstd, dx, dweight, {});
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
  HWY_DYNAMIC_DISPATCH(LayerForward)(x, weight, bias, eps, y, mean, rstd);
}
void layer_norm_backward(ConstRows dy, ConstRows x, ConstRows weight, ConstRows mean, ConstRows rstd, Rows dx,
                         Rows dweight, Rows dbias) {
  HWY_DYNAMIC_DISPATCH(LayerBackward)(dy, x, weight, mean, rstd, dx, dweight, dbias);
}
void rms_norm(ConstRows x, ConstRows weight, double eps, Rows y, Rows rstd) {
  HWY_DYNAMIC_DISPATCH(RmsForward)(x, weight, eps, y, rstd);
}
void rms_norm_backward(ConstRows dy, ConstRows x, ConstRows weight, ConstRows rstd, Rows dx, Rows dweight) {
  HWY_DYNAMIC_DISPATCH(RmsBackward)(dy, x, weight, rstd, dx, dweight);
}
}  // namespace attend::cpu
#endif
