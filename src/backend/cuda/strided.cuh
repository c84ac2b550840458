#pragma once

#include <algorithm>
#include <array>
#include <utility>

#include "backend/cuda/types.cuh"

// Walks over N operands with strides, and the elementwise kernel that uses them.
namespace attend::cuda {

/// Division of 32-bit numbers below 2³¹ by a number that is fixed for a launch (Granlund & Montgomery 1994).
struct FastDivide {
  uint32_t divisor = 1, factor = 0, shift = 0;

  FastDivide() = default;
  explicit FastDivide(int64_t by) : divisor(static_cast<uint32_t>(by)) {
    while ((uint64_t{1} << shift) < divisor) ++shift;
    factor = static_cast<uint32_t>(((uint64_t{1} << 32) * ((uint64_t{1} << shift) - divisor)) / divisor + 1);
  }
  __device__ uint32_t quotient(uint32_t n) const { return (__umulhi(n, factor) + n) >> shift; }
};

/// The axes of N operands, without axes of size 1, merged where all operands are evenly spaced. The last axis is cut
/// into packs of `pack` elements; a position counts packs, in row-major order.
template <int N>
struct Walk {
  int rank = 0;
  uint32_t packs = 0;  ///< in all
  int64_t inner = 1;   ///< size of the last axis
  int pack = 1;
  bool aligned = false;    ///< packs of the operands with inner stride 1 may be moved by whole accesses
  int64_t size[kMaxRank];  ///< of each axis; of the last: in packs
  FastDivide divide[kMaxRank];
  int64_t stride[N][kMaxRank];

  __device__ int64_t inner_stride(int operand) const { return stride[operand][rank - 1]; }

  /// Element offsets of each operand at a position. Returns the position's first element on the last axis.
  __device__ int64_t offsets(uint32_t position, int64_t (&offset)[N]) const {
    uint32_t rest = divide[rank - 1].quotient(position);
    const int64_t column = static_cast<int64_t>(position - rest * divide[rank - 1].divisor) * pack;
#pragma unroll
    for (int n = 0; n < N; ++n) offset[n] = column * stride[n][rank - 1];
    for (int axis = rank - 2; axis >= 0; --axis) {
      const uint32_t next = divide[axis].quotient(rest);
      const auto place = static_cast<int64_t>(rest - next * divide[axis].divisor);
#pragma unroll
      for (int n = 0; n < N; ++n) offset[n] += place * stride[n][axis];
      rest = next;
    }
    return column;
  }
};

/// An operand of a walk: where it starts, its strides, and the bytes of an element.
struct WalkOperand {
  const void* data = nullptr;
  Strides strides;
  size_t item = 4;
};
template <class Pointer>
WalkOperand walk_operand(const BasicView<Pointer>& view) {
  return {view.data, view.strides, size_of(view.dtype)};
}
template <class Pointer>
WalkOperand walk_operand(const BasicRows<Pointer>& rows) {
  return {rows.data, {rows.stride, 1}, size_of(rows.dtype)};
}

template <int N>
Walk<N> make_walk(const Shape& shape, const std::array<WalkOperand, N>& operands, int pack) {
  Walk<N> walk;
  walk.pack = pack;
  const auto merges = [&](int64_t axis) {
    for (int n = 0; n < N; ++n) {
      if (walk.stride[n][walk.rank - 1] != operands[n].strides[axis] * shape[axis]) return false;
    }
    return true;
  };
  for (int64_t axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == 1) continue;
    const bool merged = walk.rank > 0 && merges(axis);
    const int at = merged ? walk.rank - 1 : walk.rank++;
    walk.size[at] = merged ? walk.size[at] * shape[axis] : shape[axis];
    for (int n = 0; n < N; ++n) walk.stride[n][at] = operands[n].strides[axis];
  }
  if (walk.rank == 0) {
    walk.size[walk.rank++] = 1;
    for (int n = 0; n < N; ++n) walk.stride[n][0] = 1;
  }
  const int last = walk.rank - 1;
  walk.inner = walk.size[last];
  walk.size[last] = ceil_div(walk.inner, pack);
  int64_t packs = 1;
  for (int axis = 0; axis < walk.rank; ++axis) {
    walk.divide[axis] = FastDivide(walk.size[axis]);
    packs *= walk.size[axis];
  }
  walk.packs = static_cast<uint32_t>(packs);
  walk.aligned = true;
  for (int n = 0; n < N; ++n) {
    const auto unit = std::min<int64_t>(16, pack * static_cast<int64_t>(operands[n].item));
    if (walk.stride[n][last] == 0) continue;
    bool fits = walk.stride[n][last] == 1 && reinterpret_cast<uintptr_t>(operands[n].data) % unit == 0;
    for (int axis = 0; axis < last; ++axis) {
      fits = fits && walk.stride[n][axis] * static_cast<int64_t>(operands[n].item) % unit == 0;
    }
    walk.aligned = walk.aligned && fits;
  }
  return walk;
}

/// Calls launch(shape, offsets of each operand) for parts of the shape of fewer than 2³¹ elements.
template <int N, class F>
void in_parts(const Shape& shape, const std::array<WalkOperand, N>& operands, F&& launch) {
  if (shape.numel() == 0) return;
  if (shape.numel() < (int64_t{1} << 31)) return launch(shape, operands);
  const int64_t axis = std::max_element(shape.begin(), shape.end()) - shape.begin();
  const int64_t half = ceil_div(shape[axis] / 2, 64) * 64;
  Shape part = shape;
  part[axis] = half;
  in_parts<N>(part, operands, launch);
  std::array<WalkOperand, N> behind = operands;
  for (WalkOperand& operand : behind) {
    operand.data = static_cast<const char*>(operand.data) + half * operand.strides[axis] * int64_t(operand.item);
  }
  part[axis] = shape[axis] - half;
  in_parts<N>(part, behind, launch);
}

constexpr int kMapThreads = 256;

/// N elements of an operand along its last axis: one access, one repeated element, or element by element.
template <int N, class T>
__device__ Pack<T, N> load_strided(const T* from, int64_t stride, int64_t valid, bool aligned) {
  if (stride == 1) return load_pack<N>(from, valid, aligned);
  Pack<T, N> pack;
  if (stride == 0) {
    const T value = *from;
#pragma unroll
    for (int i = 0; i < N; ++i) pack.at[i] = value;
    return pack;
  }
#pragma unroll
  for (int i = 0; i < N; ++i) pack.at[i] = i < valid ? from[i * stride] : T{};
  return pack;
}

/// y = f(x…) on packs of N elements: f(pack of y, packs of x…).
template <int N, class F, class Y, class... X>
__global__ void __launch_bounds__(kMapThreads)
    map_kernel(const __grid_constant__ Walk<1 + sizeof...(X)> walk, F f, Y* y, const X*... x) {
  const uint32_t position = blockIdx.x * kMapThreads + threadIdx.x;
  if (position >= walk.packs) return;
  int64_t offset[1 + sizeof...(X)];
  const int64_t valid = walk.inner - walk.offsets(position, offset);
  Pack<Y, N> result;
  [&]<size_t... I>(std::index_sequence<I...>) {
    f(result, load_strided<N>(x + offset[I + 1], walk.inner_stride(I + 1), valid, walk.aligned)...);
  }
  (std::index_sequence_for<X...>{});
  if (walk.inner_stride(0) == 1) return store_pack<N>(y + offset[0], result, valid, walk.aligned);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if (i < valid) y[offset[0] + i * walk.inner_stride(0)] = result.at[i];
  }
}

/// Launches map_kernel over `shape`; operand 0 is y. A thread takes 16 bytes of the narrowest type.
template <class Y, class... X, class F, class... View>
void map(const char* name, const Shape& shape, F f, const View&... views) {
  constexpr int kOperands = 1 + sizeof...(X);
  static_assert(sizeof...(View) == kOperands);
  constexpr int kN = std::max({kPack<Y>, kPack<X>...});
  in_parts<kOperands>(shape, {walk_operand(views)...}, [&](const Shape& part, const auto& operands) {
    const Walk<kOperands> walk = make_walk<kOperands>(part, operands, kN);
    [&]<size_t... I>(std::index_sequence<I...>) {
      map_kernel<kN, F, Y, X...><<<ceil_div(walk.packs, kMapThreads), kMapThreads, 0, stream()>>>(
          walk, f, const_cast<Y*>(static_cast<const Y*>(operands[0].data)),
          static_cast<const X*>(operands[I + 1].data)...);
    }
    (std::index_sequence_for<X...>{});
    check_launch(name);
  });
}

}  // namespace attend::cuda
