#include "backend/cuda/cuda.h"
#include "backend/cuda/strided.cuh"

// Floor: memory bandwidth. cos and sin are computed once per position and frequency, in double, because angles grow
// with position; the table is read from L2.
namespace attend::cuda {
namespace {

constexpr int kThreads = 256;

/// cos and sin of position · frequency, [length, half] each.
template <class S>
__global__ void table_kernel(const double* frequencies, const int64_t* positions, RotaryOptions options, int64_t half,
                             int64_t length, S* cosines, S* sines) {
  const int64_t at = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (at >= length * half) return;
  const int64_t row = at / half, i = at % half;
  const int64_t position = positions != nullptr ? positions[row] : options.offset + row;
  const double frequency =
      frequencies != nullptr ? frequencies[i] : pow(options.base, -static_cast<double>(i) / static_cast<double>(half));
  double sine, cosine;
  sincos(static_cast<double>(position) * frequency, &sine, &cosine);
  cosines[at] = static_cast<S>(cosine);
  sines[at] = static_cast<S>(options.inverse ? -sine : sine);
}

/// Work items of a row: packs of kN pairs to rotate, then packs of features to copy.
struct RotaryShape {
  int64_t rows, dim, turned, half;
  FastDivide items, length;
  uint32_t turning;  ///< number of items that rotate
  bool interleaved, aligned;
};

// (a, b) ↦ (a cos − b sin, b cos + a sin) for pairs (i, i + half), or (2i, 2i + 1) if interleaved.
template <class T>
__global__ void __launch_bounds__(kThreads)
    rotary_kernel(const __grid_constant__ Walk<2> walk, RotaryShape shape, const T* x, T* y, const Sum<T>* cosines,
                  const Sum<T>* sines) {
  using S = Sum<T>;
  constexpr int kN = kPack<T>;
  const uint32_t task = blockIdx.x * kThreads + threadIdx.x, row = shape.items.quotient(task);
  if (row >= shape.rows) return;
  int64_t offset[2];
  walk.offsets(row, offset);
  y += offset[0];
  x += offset[1];
  const uint32_t item = task - row * shape.items.divisor;
  if (item >= shape.turning) {
    const int64_t at = shape.turned + int64_t{item - shape.turning} * kN, valid = shape.dim - at;
    return store_pack<kN>(y + at, load_pack<kN>(x + at, valid, shape.aligned), valid, shape.aligned);
  }
  const int64_t first = int64_t{item} * kN, valid = shape.half - first;
  const int64_t table = int64_t{row - shape.length.quotient(row) * shape.length.divisor} * shape.half + first;
  const auto cosine = load_pack<kN>(cosines + table, valid, shape.aligned);
  const auto sine = load_pack<kN>(sines + table, valid, shape.aligned);
  const auto turn = [&](T& p, T& q, int i) {
    const S a = wide(p), b = wide(q);
    p = narrow<T>(a * cosine.at[i] - b * sine.at[i]);
    q = narrow<T>(b * cosine.at[i] + a * sine.at[i]);
  };
  if (shape.interleaved) {
    const int64_t values = 2 * valid;
    auto low = load_pack<kN>(x + 2 * first, values, shape.aligned);
    auto high = load_pack<kN>(x + 2 * first + kN, values - kN, shape.aligned);
#pragma unroll
    for (int i = 0; i < kN / 2; ++i) {
      turn(low.at[2 * i], low.at[2 * i + 1], i);
      turn(high.at[2 * i], high.at[2 * i + 1], kN / 2 + i);
    }
    store_pack<kN>(y + 2 * first, low, values, shape.aligned);
    store_pack<kN>(y + 2 * first + kN, high, values - kN, shape.aligned);
  } else {
    auto low = load_pack<kN>(x + first, valid, shape.aligned);
    auto high = load_pack<kN>(x + shape.half + first, valid, shape.aligned);
#pragma unroll
    for (int i = 0; i < kN; ++i) turn(low.at[i], high.at[i], i);
    store_pack<kN>(y + first, low, valid, shape.aligned);
    store_pack<kN>(y + shape.half + first, high, valid, shape.aligned);
  }
}

template <class Pointer>
WalkOperand row_operand(const BasicView<Pointer>& view) {
  return {view.data, Strides(view.strides.span().first(static_cast<size_t>(view.rank() - 1))), size_of(view.dtype)};
}

template <class Pointer>
bool rows_start_aligned(const BasicView<Pointer>& view) {
  const auto item = static_cast<int64_t>(size_of(view.dtype));
  bool aligned = reinterpret_cast<uintptr_t>(view.data) % 16 == 0;
  for (int64_t axis = 0; axis + 1 < view.rank(); ++axis) {
    aligned = aligned && (view.shape[axis] <= 1 || view.strides[axis] * item % 16 == 0);
  }
  return aligned;
}

}  // namespace

void rotary(ConstView x, ConstRows frequencies, ConstRows positions, const RotaryOptions& options, View y) {
  if (x.shape.numel() == 0) return;
  with_float(y.dtype, "rotary", [&](auto type) {
    using T = decltype(type);
    using S = Sum<T>;
    constexpr int kN = kPack<T>;
    const int64_t length = x.shape[x.rank() - 2], dim = x.shape[x.rank() - 1], rows = x.shape.numel() / dim;
    const int64_t turned = options.dims > 0 ? options.dims : dim, half = turned / 2;
    const Scratch<S> cosines(length * half), sines(length * half);
    if (half > 0) {
      table_kernel<S><<<static_cast<unsigned>(ceil_div(length * half, kThreads)), kThreads, 0, stream()>>>(
          static_cast<const double*>(frequencies.data), static_cast<const int64_t*>(positions.data), options, half,
          length, cosines.data(), sines.data());
      check_launch("rotary");
    }
    const int64_t turning = ceil_div(half, kN), items = turning + ceil_div(dim - turned, kN);
    require<ShapeError>(rows * items < (int64_t{1} << 31), "rotary: x has too many elements for one call");
    const RotaryShape shape{rows,
                            dim,
                            turned,
                            half,
                            FastDivide(items),
                            FastDivide(length),
                            static_cast<uint32_t>(turning),
                            options.layout == RotaryLayout::interleaved,
                            half % kN == 0 && turned % kN == 0 && rows_start_aligned(x) && rows_start_aligned(y)};
    const Shape outer(x.shape.span().first(static_cast<size_t>(x.rank() - 1)));
    rotary_kernel<T><<<static_cast<unsigned>(ceil_div(rows * items, kThreads)), kThreads, 0, stream()>>>(
        make_walk<2>(outer, {row_operand(y), row_operand(x)}, 1), shape, static_cast<const T*>(x.data),
        static_cast<T*>(y.data), cosines.data(), sines.data());
  });
  check_launch("rotary");
}

}  // namespace attend::cuda
