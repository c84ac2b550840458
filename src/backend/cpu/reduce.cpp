#include "backend/cpu/cpu.h"
#include "backend/cpu/dispatch.h"
#include "backend/cpu/memory.h"
#include "backend/cpu/reduction.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/reduce.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
#include "backend/cpu/with_float-inl.h"
// clang-format on

// Sums. Short runs are added in the element's own type, many lanes at a time, and the totals of the runs in double.
// This is as accurate as adding in double throughout and runs at memory bandwidth. Runs are cut by shape alone and
// added in order.
HWY_BEFORE_NAMESPACE();
namespace attend::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Σ x[i · step] over one run.
template <class T>
double SumRun(const T* x, int64_t step, int64_t count) {
  double total = 0;
  int64_t i = 0;
  if (step == 1) {
    const hn::ScalableTag<T> d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    auto s0 = hn::Zero(d), s1 = hn::Zero(d), s2 = hn::Zero(d), s3 = hn::Zero(d);
    for (; i + 4 * lanes <= count; i += 4 * lanes) {
      s0 = hn::Add(s0, hn::LoadU(d, x + i));
      s1 = hn::Add(s1, hn::LoadU(d, x + i + lanes));
      s2 = hn::Add(s2, hn::LoadU(d, x + i + 2 * lanes));
      s3 = hn::Add(s3, hn::LoadU(d, x + i + 3 * lanes));
    }
    total = static_cast<double>(hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)))));
  }
  for (; i < count; ++i) total += static_cast<double>(x[i * step]);
  return total;
}

/// Σ x[i]² in double.
template <class T>
double SumSquaresRun(const T* x, int64_t count) {
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const hn::Rebind<T, decltype(d)> narrow;
  const auto load = [&](const T* from) {
    if constexpr (sizeof(T) == 8)
      return hn::LoadU(d, from);
    else
      return hn::PromoteTo(d, hn::LoadU(narrow, from));
  };
  auto s0 = hn::Zero(d), s1 = hn::Zero(d), s2 = hn::Zero(d), s3 = hn::Zero(d);
  int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    const auto x0 = load(x + i), x1 = load(x + i + lanes), x2 = load(x + i + 2 * lanes), x3 = load(x + i + 3 * lanes);
    s0 = hn::MulAdd(x0, x0, s0);
    s1 = hn::MulAdd(x1, x1, s1);
    s2 = hn::MulAdd(x2, x2, s2);
    s3 = hn::MulAdd(x3, x3, s3);
  }
  double total = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
  for (; i < count; ++i) total += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return total;
}

/// total[j] (+)= Σ_r row_r[j · step] over up to four rows. Totals are loaded and stored once for all four.
template <class T>
void AddRows(const T* const (&rows)[4], int64_t step, int64_t count, T* total) {
  int64_t j = 0;
  if (step == 1) {
    const hn::ScalableTag<T> d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    for (; j + lanes <= count; j += lanes) {
      const auto low = hn::Add(hn::LoadU(d, rows[0] + j), hn::LoadU(d, rows[1] + j));
      const auto high = hn::Add(hn::LoadU(d, rows[2] + j), hn::LoadU(d, rows[3] + j));
      hn::StoreU(hn::Add(hn::LoadU(d, total + j), hn::Add(low, high)), d, total + j);
    }
  }
  for (; j < count; ++j) {
    const int64_t at = j * step;
    total[j] += (rows[0][at] + rows[1][at]) + (rows[2][at] + rows[3][at]);
  }
}

/// total[j] = Σ_r x[r][j] over `rows`, for the `columns` of one kept row. If fewer than four rows remain at the end,
/// they are summed as if rows of zeros completed them to four, so that the mean over a text does not depend on the
/// padding after it.
template <class T>
void SumColumns(const T* x, const Reduction& plan, Range rows, Range columns, T* total) {
  const int64_t step = plan.kept.inner_stride(0), count = columns.count();
  std::fill_n(total, count, T{0});
  const auto row = [&](int64_t r) { return x + plan.reduced_offset(r) + columns.begin * step; };
  int64_t r = rows.begin;
  for (; r + 4 <= rows.end; r += 4) AddRows<T>({row(r), row(r + 1), row(r + 2), row(r + 3)}, step, count, total);
  if (r == rows.end) return;
  const int64_t left = rows.end - r;
  const T *first = row(r), *second = row(std::min(r + 1, rows.end - 1)), *third = row(rows.end - 1);
  for (int64_t j = 0; j < count; ++j) {
    T sum = first[j * step];
    if (left > 1) sum += second[j * step];
    if (left > 2) sum += third[j * step];
    total[j] += sum;
  }
}

/// Sums where a reduced axis has unit stride: each result is the total of its runs.
template <class T>
void SumAlongRuns(const T* x, const Reduction& plan, T* y) {
  const int64_t outputs = plan.kept_count(), pieces = plan.piece_count();
  const auto piece_total = [&](int64_t output, int64_t piece) {
    const T* from = x + plan.kept_offset(output, 0);
    double total = 0;
    plan.for_runs(piece, [&](int64_t offset, int64_t count) {
      total += SumRun(from + offset, plan.reduced.inner_stride(0), count);
    });
    return total;
  };
  Scratch<double> partial(pieces > 1 ? outputs * pieces : 1);
  if (pieces > 1) {
    parallel_for(outputs * pieces,
                 [&](int64_t task) { partial.data()[task] = piece_total(task / pieces, task % pieces); });
  }
  parallel_ranges(outputs, std::max<int64_t>(1, kGrain / plan.reduced_count()), [&](int64_t begin, int64_t end) {
    for (int64_t output = begin; output < end; ++output) {
      double total = 0;
      for (int64_t piece = 0; piece < pieces; ++piece) {
        total += pieces > 1 ? partial.data()[output * pieces + piece] : piece_total(output, 0);
      }
      y[plan.kept_offset(output, 1)] = static_cast<T>(total);
    }
  });
}

/// Sums where a kept axis has unit stride, as in the gradient of a bias: whole rows are added to a row of totals.
template <class T>
void SumAcrossRows(const T* x, const Reduction& plan, T* y) {
  const int64_t rows = plan.reduced_count(), columns = plan.kept.inner;
  const int64_t pieces = (rows + kRowsPerPiece - 1) / kRowsPerPiece, blocks = (columns + kColumns - 1) / kColumns;
  Scratch<T> partial(plan.kept.outer * pieces * columns);  // [outer, pieces, columns]
  parallel_for(plan.kept.outer * pieces * blocks, [&](int64_t task) {
    const int64_t block = task % blocks, line = task / blocks;  // line = outer · pieces + piece
    const Range range = part(columns, kColumns, block);
    SumColumns(x + plan.kept.offsets(line / pieces)[0], plan, part(rows, kRowsPerPiece, line % pieces), range,
               partial.data() + line * columns + range.begin);
  });
  parallel_ranges(plan.kept.outer * columns, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T* totals = partial.data() + i / columns * pieces * columns + i % columns;
      double total = 0;
      for (int64_t piece = 0; piece < pieces; ++piece) total += static_cast<double>(totals[piece * columns]);
      y[plan.kept_offset(i, 1)] = static_cast<T>(total);
    }
  });
}

void Sum(const ConstView& x, const View& y) {
  WithFloat(y.dtype, "sum", [&](auto type) {
    using T = decltype(type);
    const Reduction plan(x, y);
    const auto* from = static_cast<const T*>(x.data);
    auto* to = static_cast<T*>(y.data);
    plan.runs_are_summed() ? SumAlongRuns(from, plan, to) : SumAcrossRows(from, plan, to);
  });
}

double SumOfSquares(const ConstRows& x) {
  double total = 0;
  WithFloat(x.dtype, "sum_of_squares", [&](auto type) {
    using T = decltype(type);
    const auto* data = static_cast<const T*>(x.data);
    const int64_t pieces = (x.cols + kGrain - 1) / kGrain;
    Scratch<double> partial(x.rows * pieces);
    parallel_for(x.rows * pieces, [&](int64_t task) {
      const Range range = part(x.cols, kGrain, task % pieces);
      partial.data()[task] = SumSquaresRun(data + task / pieces * x.stride + range.begin, range.count());
    });
    for (int64_t i = 0; i < x.rows * pieces; ++i) total += partial.data()[i];
  });
  return total;
}

}  // namespace attend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend::cpu {
HWY_EXPORT(Sum);
HWY_EXPORT(SumOfSquares);

void sum(ConstView x, View y) {
  if (y.shape.numel() == 0) return;
  if (x.shape.numel() == 0) return fill(y, 0);
  ATTEND_DISPATCH(y.dtype, Sum)(x, y);
}
void sum_of_squares(std::span<const ConstRows> parts, Rows total) {
  double sum = 0;
  for (ConstRows x : parts) {
    if (x.stride == x.cols) x = {x.data, x.dtype, 1, x.numel(), x.numel()};  // dense: cut evenly instead of by rows
    sum += ATTEND_DISPATCH(x.dtype, SumOfSquares)(x);
  }
  *static_cast<double*>(total.data) = sum;
}
}  // namespace attend::cpu
#endif
