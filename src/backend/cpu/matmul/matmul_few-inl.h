// Matrix products with a few rows, limited by the time to read b: it is read once, in order, and never packed. Included
// once for each instruction set.
#if defined(ATTEND_MATMUL_FEW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_MATMUL_FEW_INL_H_
#undef ATTEND_MATMUL_FEW_INL_H_
#else
#define ATTEND_MATMUL_FEW_INL_H_
#endif

#include <hwy/highway.h>

#include "attend/base/threads.h"
#include "backend/cpu/matmul/matmul.h"
#include "backend/cpu/matmul/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr int64_t kReadElements = 1 << 15;  // minimum elements of b for a task of its own
inline constexpr int64_t kStrip = 256;             // columns whose sums a task keeps in L1
inline constexpr int64_t kAddedRows = 8;           // up to this many rows of a, b is streamed row by row

/// Contiguous vectors, `stride` apart.
template <class T>
struct Lines {
  const T* data = nullptr;
  int64_t stride = 0, count = 0;
};

/// result[i][j] = few_i · many_j for kFew × kMany lines.
template <int kFew, int kMany, class T>
HWY_INLINE void DotTile(const Lines<T>& few, const Lines<T>& many, int64_t depth, T (&result)[kFew][kMany]) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> sum[kFew][kMany];
  HWY_UNROLL(4) for (int i = 0; i < kFew; ++i) {
    HWY_UNROLL(4) for (int j = 0; j < kMany; ++j) sum[i][j] = hn::Zero(d);
  }
  int64_t p = 0;
  for (; p + lanes <= depth; p += lanes) {
    hn::Vec<decltype(d)> line[kMany];
    HWY_UNROLL(4) for (int j = 0; j < kMany; ++j) line[j] = hn::LoadU(d, many.data + j * many.stride + p);
    HWY_UNROLL(4) for (int i = 0; i < kFew; ++i) {
      const auto value = hn::LoadU(d, few.data + i * few.stride + p);
      HWY_UNROLL(4) for (int j = 0; j < kMany; ++j) sum[i][j] = hn::MulAdd(value, line[j], sum[i][j]);
    }
  }
  for (int i = 0; i < kFew; ++i) {
    for (int j = 0; j < kMany; ++j) {
      T total = hn::GetLane(hn::SumOfLanes(d, sum[i][j]));
      for (int64_t rest = p; rest < depth; ++rest)
        total = AddProduct(few.data[i * few.stride + rest], many.data[j * many.stride + rest], total);
      result[i][j] = total;
    }
  }
}

/// Calls store(i, j, few_i · many_j) for kFew lines of `few`, from `row` on, and lines [first, last) of `many`.
template <int kFew, class T, class Store>
void DotLines(const Lines<T>& few, int64_t row, const Lines<T>& many, int64_t first, int64_t last, int64_t depth,
              const Store& store) {
  // At most 12 sums, kMany vectors of `many` and one broadcast value of `few`: these fill 16 registers.
  constexpr int kMany = kFew > 1 ? 3 : 4;
  const Lines<T> left{few.data + row * few.stride, few.stride, kFew};
  const auto take = [&](auto width, int64_t j) {
    T result[kFew][width()];
    DotTile<kFew, width()>(left, Lines<T>{many.data + j * many.stride, many.stride, width()}, depth, result);
    for (int i = 0; i < kFew; ++i) {
      for (int n = 0; n < width(); ++n) store(row + i, j + n, result[i][n]);
    }
  };
  int64_t j = first;
  for (; j + kMany <= last; j += kMany) take(std::integral_constant<int, kMany>(), j);
  for (; j < last; ++j) take(std::integral_constant<int, 1>(), j);
}

/// Multiplies every line of `few` with every line of `many`. Both are contiguous along k.
template <class T, class Store>
void MultiplyByDots(const Lines<T>& few, const Lines<T>& many, int64_t depth, const Store& store) {
  const int64_t grain = (kReadElements / std::max<int64_t>(1, depth) + 11) / 12 * 12;
  parallel_ranges(many.count, grain, [&](int64_t begin, int64_t end) {
    for (int64_t first = begin; first < end; first += 12) {  // 12 lines stay in cache for all of `few`
      const int64_t last = std::min(first + 12, end);
      int64_t row = 0;
      for (; row + 4 <= few.count; row += 4) DotLines<4>(few, row, many, first, last, depth, store);
      switch (few.count - row) {
        case 3:
          DotLines<3>(few, row, many, first, last, depth, store);
          break;
        case 2:
          DotLines<2>(few, row, many, first, last, depth, store);
          break;
        case 1:
          DotLines<1>(few, row, many, first, last, depth, store);
          break;
        default:
          break;
      }
    }
  });
}

/// total[i][j] += Σ_{r < 4} a(i, p + r) · b(p + r, j) over a strip, for kRows rows from i on. Four rows of b stream
/// past while the sums stay in L1.
template <int kRows, class T>
HWY_INLINE void AddFourRows(const MatrixProduct<T>& in, int64_t i, int64_t p, int64_t first, int64_t count, T* total) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const T* b = in.b + p * in.b_step + first;
  const auto a = [&](int row, int r) { return in.a[(i + row) * in.a_row + (p + r) * in.a_step]; };
  hn::Vec<decltype(d)> value[kRows][4];
  HWY_UNROLL(2) for (int row = 0; row < kRows; ++row) {
    HWY_UNROLL(4) for (int r = 0; r < 4; ++r) value[row][r] = hn::Set(d, a(row, r));
  }
  int64_t j = 0;
  for (; j + lanes <= count; j += lanes) {
    hn::Vec<decltype(d)> sum[kRows];
    HWY_UNROLL(2) for (int row = 0; row < kRows; ++row) sum[row] = hn::LoadU(d, total + row * kStrip + j);
    HWY_UNROLL(4) for (int r = 0; r < 4; ++r) {
      const auto line = hn::LoadU(d, b + r * in.b_step + j);
      HWY_UNROLL(2) for (int row = 0; row < kRows; ++row) sum[row] = hn::MulAdd(value[row][r], line, sum[row]);
    }
    HWY_UNROLL(2) for (int row = 0; row < kRows; ++row) hn::StoreU(sum[row], d, total + row * kStrip + j);
  }
  for (; j < count; ++j) {
    for (int row = 0; row < kRows; ++row) {
      for (int r = 0; r < 4; ++r) total[row * kStrip + j] += a(row, r) * b[r * in.b_step + j];
    }
  }
}

/// Columns [first, first + count) of a product of few rows: c_i = Σ_p a(i, p) b_p.
template <class T, class Store>
void MultiplyStrip(const MatrixProduct<T>& in, int64_t first, int64_t count, const Store& store) {
  HWY_ALIGN T total[kAddedRows * kStrip] = {};
  int64_t p = 0;
  for (; p + 4 <= in.k; p += 4) {
    int64_t i = 0;
    for (; i + 2 <= in.m; i += 2) AddFourRows<2>(in, i, p, first, count, total + i * kStrip);
    if (i < in.m) AddFourRows<1>(in, i, p, first, count, total + i * kStrip);
  }
  for (; p < in.k; ++p) {
    for (int64_t i = 0; i < in.m; ++i) {
      const T value = in.a[i * in.a_row + p * in.a_step];
      for (int64_t j = 0; j < count; ++j) total[i * kStrip + j] += value * in.b[p * in.b_step + first + j];
    }
  }
  for (int64_t i = 0; i < in.m; ++i) {
    for (int64_t j = 0; j < count; ++j) store(i, first + j, total[i * kStrip + j]);
  }
}

/// Multiplies at most kAddedRows rows of a with a b whose rows are contiguous.
template <class T, class Store>
void MultiplyByRows(const MatrixProduct<T>& in, const Store& store) {
  const Blocks strips(in.n, kStrip, 16);
  parallel_for(strips.count, [&](int64_t strip) {
    MultiplyStrip(in, strips.begin(strip), strips.end(strip) - strips.begin(strip), store);
  });
}

}  // namespace attend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ATTEND_MATMUL_FEW_INL_H_
