#include "backend/cpu/matmul/matmul.h"

#include "backend/cpu/cpu.h"
#include "backend/cpu/matmul/bf16.h"
#include "backend/cpu/memory.h"
#include "backend/cpu/strided.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/matmul/matmul.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
#include "backend/cpu/matmul/matmul_blocked-inl.h"
#include "backend/cpu/matmul/matmul_few-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace attend::cpu::HWY_NAMESPACE {

inline constexpr int64_t kDotLines = 16;  // up to this many rows, dot products are faster than packing b

template <class T>
void MultiplyOne(const MatrixProduct<T>& in) {
  if (in.invariant) return BlockedProduct<T>(in).Run();
  const auto store = [&in](int64_t i, int64_t j, T value) {
    T& c = in.turned ? in.c[j * in.c_row + i] : in.c[i * in.c_row + j];
    if (in.bias != nullptr) value += in.bias[in.turned ? i : j];
    c = in.accumulate ? c + value : value;
  };
  if (in.b != nullptr && in.a_step == 1 && in.b_step == 1 && std::min(in.m, in.n) <= kDotLines) {
    const Lines<T> rows{in.a, in.a_row, in.m}, columns{in.b, in.b_col, in.n};
    if (in.m <= in.n) return MultiplyByDots(rows, columns, in.k, store);
    return MultiplyByDots(columns, rows, in.k, [&](int64_t j, int64_t i, T value) { store(i, j, value); });
  }
  if (in.b != nullptr && in.b_col == 1 && in.m <= kAddedRows) return MultiplyByRows(in, store);
  BlockedProduct<T>(in).Run();
}

void MultiplyF32(const MatrixProduct<float>& product) { MultiplyOne(product); }
#if HWY_TARGET == HWY_STATIC_TARGET  // see dispatch.h
void MultiplyF64(const MatrixProduct<double>& product) { MultiplyOne(product); }
#endif

}  // namespace attend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend::cpu {
namespace {

HWY_EXPORT(MultiplyF32);

void multiply_one(const MatrixProduct<float>& product) { multiply_f32(product); }
void multiply_one(const MatrixProduct<double>& product) { HWY_STATIC_DISPATCH(MultiplyF64)(product); }

/// From this many matrices on, each thread takes whole matrices; below, threads share each matrix.
constexpr int64_t kManyMatrices = 16;
constexpr int64_t kSmallMatrix = 1 << 18;  // multiply-adds

Loop<3> batch_loop(const ConstView& a, const ConstView& b, const View& c) {
  Shape shape;
  std::array<Strides, 3> strides;
  for (int64_t axis = 0; axis + 2 < c.rank(); ++axis) {
    shape.push_back(c.shape[axis]);
    strides[0].push_back(a.strides[axis]);
    strides[1].push_back(b.strides[axis]);
    strides[2].push_back(c.strides[axis]);
  }
  return Loop<3>(shape, strides);
}

template <class T>
void multiply_all(const MatrixProduct<T>& first, const Loop<3>& batch) {
  const auto multiply_at = [&](int64_t index) {
    MatrixProduct<T> product = first;
    const auto offsets = batch.offsets(index / batch.inner);
    const int64_t place = index % batch.inner;
    product.a += offsets[0] + place * batch.inner_stride(0);
    product.b += offsets[1] + place * batch.inner_stride(1);
    product.c += offsets[2] + place * batch.inner_stride(2);
    multiply_one(product);
  };
  const int64_t count = batch.outer * batch.inner, work = std::max<int64_t>(1, first.m * first.n * first.k);
  if (count >= kManyMatrices || work <= kSmallMatrix) {
    parallel_ranges(count, kSmallMatrix / work, [&](int64_t begin, int64_t end) {
      for (int64_t index = begin; index < end; ++index) multiply_at(index);
    });
  } else {
    for (int64_t index = 0; index < count; ++index) multiply_at(index);
  }
}

/// True if all matrices of a batch share one b, and the rows of a and c are evenly spaced over the batch. The batch is
/// then computed as one product.
template <class T>
bool is_one_product(const MatrixProduct<T>& first, const Loop<3>& batch) {
  return batch.outer == 1 && batch.inner_stride(1) == 0 && batch.inner_stride(0) == first.m * first.a_row &&
         batch.inner_stride(2) == first.m * first.c_row;
}

template <class Pointer>
BasicRows<Pointer> dense_rows(const BasicView<Pointer>& x) {
  return {x.data, x.dtype, x.shape[0], x.shape[1], x.shape[1]};
}

}  // namespace

void multiply_f32(const MatrixProduct<float>& product) {
  if (product.bf16 && multiply_bf16(product)) return;
  HWY_DYNAMIC_DISPATCH(MultiplyF32)(product);
}

bool has_bf16() { return bf16_unit() != nullptr; }

void multiply(ConstView a, ConstView b, View c, const MatmulOptions& options) {
  require<DeviceError>(!options.bf16 || has_bf16(), kNoBf16);
  if (c.shape.numel() == 0) return;
  with_float(c.dtype, "matmul", [&](auto type) {
    using T = decltype(type);
    const int64_t row = c.rank() - 2, col = c.rank() - 1;
    MatrixProduct<T> product{.m = c.shape[row],
                             .n = c.shape[col],
                             .k = a.shape[col],
                             .a = static_cast<const T*>(a.data),
                             .a_row = a.strides[row],
                             .a_step = a.strides[col],
                             .b = static_cast<const T*>(b.data),
                             .b_step = b.strides[row],
                             .b_col = b.strides[col],
                             .c = static_cast<T*>(c.data),
                             .c_row = c.strides[row],
                             .bias = static_cast<const T*>(options.bias.data),
                             .accumulate = options.accumulate,
                             .bf16 = options.bf16};
    if (product.k == 1) product.a_step = product.b_step = 1;  // the stride of an axis of size 1 is arbitrary
    if (product.n == 1) product.b_col = 1;
    const bool copies_bias = options.bias && product.n > 1 && options.bias.strides[0] != 1;
    const Scratch<T> bias(copies_bias ? product.n : 0);
    if (copies_bias) {
      for (int64_t j = 0; j < product.n; ++j) bias.data()[j] = product.bias[j * options.bias.strides[0]];
      product.bias = bias.data();
    }
    const Loop<3> batch = batch_loop(a, b, c);
    if (is_one_product(product, batch)) {
      product.m *= batch.inner;
      multiply_one(product);
    } else {
      multiply_all(product, batch);
    }
  });
  if (options.residual) accumulate(options.residual, c);
  if (options.row_sums) {
    const View sums{options.row_sums.data, options.row_sums.dtype, {a.shape[0], 1}, {options.row_sums.strides[0], 1}};
    sum(a, sums);
  }
}

void multiply_gelu(ConstView a, ConstView b, ConstView bias, View u, View c) {
  multiply(a, b, u, {.bias = bias});
  unary(UnaryKind::gelu_tanh, dense_rows(u), dense_rows(c));
}
void multiply_gelu_backward(ConstView a, ConstView b, ConstView u, View c) {
  multiply(a, b, c, {});
  unary_backward(UnaryKind::gelu_tanh, dense_rows(c), dense_rows(u), dense_rows(c));
}

}  // namespace attend::cpu
#endif
