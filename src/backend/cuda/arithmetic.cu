#include <bit>

#include "backend/cuda/cuda.h"
#include "backend/cuda/strided.cuh"

// Copies and arithmetic on strided views: y = f(x…) by map_kernel. Floor: bytes read and written at memory bandwidth.
// Most tensors merge into one axis and need no division; a bias over rows, or [b, h, l, d] ↔ [b, l, h, d], needs one or
// two multiplications for 16 bytes.
namespace attend::cuda {
namespace {

struct SetTo {
  uint64_t bits;
  template <class T, int N>
  __device__ void operator()(Pack<T, N>& y) const {
#pragma unroll
    for (int i = 0; i < N; ++i) y.at[i] = static_cast<T>(bits);
  }
};

struct Same {
  template <class T, int N>
  __device__ void operator()(Pack<T, N>& y, const Pack<T, N>& x) const {
    y = x;
  }
};

struct ConvertFloat {
  template <class Y, class X, int N>
  __device__ void operator()(Pack<Y, N>& y, const Pack<X, N>& x) const {
#pragma unroll
    for (int i = 0; i < N; ++i) y.at[i] = narrow<Y>(wide(x.at[i]));
  }
};

template <class S>
struct Affine {
  S scale, shift;
  template <class T, int N>
  __device__ void operator()(Pack<T, N>& y, const Pack<T, N>& x) const {
#pragma unroll
    for (int i = 0; i < N; ++i) y.at[i] = narrow<T>(scale * wide(x.at[i]) + shift);
  }
};

struct Binary {
  BinaryKind kind;
  template <class Y, class A, class B, int N>
  __device__ void operator()(Pack<Y, N>& y, const Pack<A, N>& a, const Pack<B, N>& b) const {
    const auto each = [&](auto f) {
#pragma unroll
      for (int i = 0; i < N; ++i) y.at[i] = narrow<Y>(f(wide(a.at[i]), wide(b.at[i])));
    };
    switch (kind) {
      case BinaryKind::add:
        return each([](auto p, auto q) { return p + q; });
      case BinaryKind::subtract:
        return each([](auto p, auto q) { return p - q; });
      case BinaryKind::multiply:
        return each([](auto p, auto q) { return p * q; });
      case BinaryKind::divide:
        return each([](auto p, auto q) { return p / q; });
    }
  }
};

constexpr bool is_integer(DType dtype) { return dtype > DType::bf16; }

// Conversions between rare pairs of dtypes take one element a thread. Integers pass through i64 and floats through f64,
// so that no value is rounded twice.
__device__ int64_t load_integer(const void* data, DType dtype, int64_t at) {
  switch (dtype) {
    case DType::i64:
      return static_cast<const int64_t*>(data)[at];
    case DType::i32:
      return static_cast<const int32_t*>(data)[at];
    case DType::i16:
      return static_cast<const int16_t*>(data)[at];
    case DType::i8:
      return static_cast<const int8_t*>(data)[at];
    default:
      return static_cast<const uint8_t*>(data)[at];
  }
}

template <class From>
__device__ void store_converted(void* data, DType dtype, int64_t at, From value) {
  switch (dtype) {
    case DType::f32:
      static_cast<float*>(data)[at] = static_cast<float>(value);
      break;
    case DType::f64:
      static_cast<double*>(data)[at] = static_cast<double>(value);
      break;
    case DType::f16:
      static_cast<Float16*>(data)[at] = narrow<Float16>(static_cast<float>(value));
      break;
    case DType::bf16:
      static_cast<BFloat16*>(data)[at] = narrow<BFloat16>(static_cast<float>(value));
      break;
    case DType::i64:
      static_cast<int64_t*>(data)[at] = static_cast<int64_t>(value);
      break;
    case DType::i32:
      static_cast<int32_t*>(data)[at] = static_cast<int32_t>(static_cast<int64_t>(value));
      break;
    case DType::i16:
      static_cast<int16_t*>(data)[at] = static_cast<int16_t>(static_cast<int64_t>(value));
      break;
    case DType::i8:
      static_cast<int8_t*>(data)[at] = static_cast<int8_t>(static_cast<int64_t>(value));
      break;
    case DType::u8:
      static_cast<uint8_t*>(data)[at] = static_cast<uint8_t>(static_cast<int64_t>(value));
      break;
    case DType::boolean:
      static_cast<bool*>(data)[at] = value != From{};
      break;
  }
}

__global__ void convert_kernel(const __grid_constant__ Walk<2> walk, const void* x, DType from, void* y, DType to) {
  const uint32_t position = blockIdx.x * kMapThreads + threadIdx.x;
  if (position >= walk.packs) return;
  int64_t offset[2];
  walk.offsets(position, offset);
  if (from > DType::bf16)
    store_converted(y, to, offset[0], load_integer(x, from, offset[1]));
  else
    store_converted(y, to, offset[0], load_any(x, from, offset[1]));
}

void convert(const ConstView& x, const View& y) {
  in_parts<2>(y.shape, {walk_operand(y), walk_operand(x)}, [&](const Shape& part, const auto& operands) {
    const Walk<2> walk = make_walk<2>(part, operands, 1);
    convert_kernel<<<ceil_div(walk.packs, kMapThreads), kMapThreads, 0, stream()>>>(
        walk, operands[1].data, x.dtype, const_cast<void*>(operands[0].data), y.dtype);
    check_launch("copy");
  });
}

// A transposing copy goes through tiles in shared memory, so that both sides are accessed along their unit strides.
constexpr int kTile = 32, kTileRows = 8;

struct TransposeSizes {
  int64_t rows, cols;  ///< y has unit stride along cols, x along rows
  int64_t x_stride, y_stride;
};

template <class T>
__global__ void transpose_kernel(const __grid_constant__ Walk<2> outer, TransposeSizes sizes, const T* x, T* y) {
  __shared__ T tile[kTile][kTile + 4 / sizeof(T) + (sizeof(T) > 4)];
  int64_t offset[2];
  outer.offsets(blockIdx.z, offset);
  const int64_t row = int64_t{blockIdx.y} * kTile, col = int64_t{blockIdx.x} * kTile;
  for (int i = threadIdx.y; i < kTile; i += kTileRows) {
    if (row + threadIdx.x < sizes.rows && col + i < sizes.cols) {
      tile[i][threadIdx.x] = x[offset[1] + (col + i) * sizes.x_stride + row + threadIdx.x];
    }
  }
  __syncthreads();
  for (int i = threadIdx.y; i < kTile; i += kTileRows) {
    if (row + i < sizes.rows && col + threadIdx.x < sizes.cols) {
      y[offset[0] + (row + i) * sizes.y_stride + col + threadIdx.x] = tile[threadIdx.x][i];
    }
  }
}

/// Copies by tiles if y is dense along its last axis and x along another one. Returns whether it did.
bool transpose(const ConstView& x, const View& y) {
  const int64_t last = y.rank() - 1;
  if (last < 1 || y.strides[last] != 1 || x.strides[last] <= 1 || y.shape.numel() == 0) return false;
  int64_t axis = last - 1;
  while (axis >= 0 && !(x.strides[axis] == 1 && y.shape[axis] > 1)) --axis;
  if (axis < 0 || y.shape[axis] < 8 || y.shape[last] < 8) return false;
  Shape outer;
  std::array<WalkOperand, 2> operands{walk_operand(y), walk_operand(x)};
  for (WalkOperand& operand : operands) operand.strides = {};
  for (int64_t a = 0; a < last; ++a) {
    if (a == axis) continue;
    outer.push_back(y.shape[a]);
    operands[0].strides.push_back(y.strides[a]);
    operands[1].strides.push_back(x.strides[a]);
  }
  const TransposeSizes sizes{y.shape[axis], y.shape[last], x.strides[last], y.strides[axis]};
  const int64_t tiles = ceil_div(sizes.rows, kTile);
  if (outer.numel() > 65535 || tiles > 65535) return false;
  const dim3 grid(static_cast<unsigned>(ceil_div(sizes.cols, kTile)), static_cast<unsigned>(tiles),
                  static_cast<unsigned>(outer.numel()));
  with_bits(y.dtype, [&](auto type) {
    using T = decltype(type);
    transpose_kernel<T><<<grid, dim3(kTile, kTileRows), 0, stream()>>>(
        make_walk<2>(outer, operands, 1), sizes, static_cast<const T*>(x.data), static_cast<T*>(y.data));
  });
  check_launch("copy");
  return true;
}

/// Calls f with the types of two dtypes if one is f32 and the other a float. Returns whether it did.
template <class F>
bool with_f32_and(DType from, DType to, F&& f) {
  if (is_integer(from) || is_integer(to) || (from != DType::f32 && to != DType::f32)) return false;
  if (to == DType::f32) {
    with_float(from, "copy", [&](auto type) { f(type, float{}); });
  } else {
    with_float(to, "copy", [&](auto type) { f(float{}, type); });
  }
  return true;
}

}  // namespace

void copy(ConstView x, View y) {
  if (x.dtype == y.dtype) {
    if (transpose(x, y)) return;
    with_bits(y.dtype, [&](auto type) {
      using T = decltype(type);
      map<T, T>("copy", y.shape, Same{}, y, x);
    });
    return;
  }
  const bool done = with_f32_and(x.dtype, y.dtype, [&](auto from, auto to) {
    using From = decltype(from);
    using To = decltype(to);
    if constexpr (!std::is_same_v<From, To>) map<To, From>("copy", y.shape, ConvertFloat{}, y, x);
  });
  if (!done) convert(x, y);
}

void fill(View y, double value) {
  uint64_t bits = 0;
  switch (y.dtype) {
    case DType::f32:
      bits = std::bit_cast<uint32_t>(static_cast<float>(value));
      break;
    case DType::f64:
      bits = std::bit_cast<uint64_t>(value);
      break;
    case DType::f16:
      bits = to_float16(static_cast<float>(value)).bits;
      break;
    case DType::bf16:
      bits = to_bfloat16(static_cast<float>(value)).bits;
      break;
    case DType::boolean:
      bits = value != 0 ? 1 : 0;
      break;
    default:
      bits = static_cast<uint64_t>(static_cast<int64_t>(value));
  }
  with_bits(y.dtype, [&](auto type) { map<decltype(type)>("fill", y.shape, SetTo{bits}, y); });
}

void affine(ConstView x, double scale, double shift, View y) {
  with_float(y.dtype, "affine", [&](auto type) {
    using T = decltype(type);
    using S = Sum<T>;
    map<T, T>("affine", y.shape, Affine<S>{static_cast<S>(scale), static_cast<S>(shift)}, y, x);
  });
}

/// x has y's dtype, or 16 bits if y is f32.
void accumulate(ConstView x, View y) {
  const Binary add{BinaryKind::add};
  if (x.dtype != y.dtype) {
    require<ShapeError>(y.dtype == DType::f32 && (x.dtype == DType::bf16 || x.dtype == DType::f16),
                        "accumulate: cannot add ", x.dtype, " to ", y.dtype);
    if (x.dtype == DType::bf16) return map<float, float, BFloat16>("accumulate", y.shape, add, y, y, x);
    return map<float, float, Float16>("accumulate", y.shape, add, y, y, x);
  }
  binary(BinaryKind::add, y, x, y);
}

void binary(BinaryKind kind, ConstView a, ConstView b, View y) {
  with_float(y.dtype, "binary", [&](auto type) {
    using T = decltype(type);
    if constexpr (kIs16Bit<T>) {
      if (b.dtype == DType::f32) return map<T, T, float>("binary", y.shape, Binary{kind}, y, a, b);
    }
    map<T, T, T>("binary", y.shape, Binary{kind}, y, a, b);
  });
}

}  // namespace attend::cuda
