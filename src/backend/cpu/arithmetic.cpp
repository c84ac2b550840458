#include <algorithm>
#include <cstring>
#include <vector>

#include "backend/cpu/cpu.h"
#include "backend/cpu/strided.h"
#include "backend/with_bits.h"

// Copies and arithmetic on strided views. All of them are limited by memory bandwidth, so plain loops that the compiler
// vectorises are fast enough.
namespace attend::cpu {
namespace {

template <class To, class From>
To convert(From value) {
  if constexpr (std::is_same_v<To, From>)
    return value;
  else if constexpr (std::is_same_v<From, Float16> || std::is_same_v<From, BFloat16>)
    return convert<To>(to_float(value));
  else if constexpr (std::is_same_v<To, Float16>)
    return to_float16(static_cast<float>(value));
  else if constexpr (std::is_same_v<To, BFloat16>)
    return to_bfloat16(static_cast<float>(value));
  else if constexpr (std::is_same_v<To, bool>)
    return value != From{};
  else
    return static_cast<To>(value);
}

/// y[i] = f(x[i]), with separate loops for unit strides: the compiler vectorises only those.
template <class X, class Y, class F>
void map_piece(const X* x, int64_t x_step, Y* y, int64_t y_step, int64_t count, F f) {
  if (x_step == 1 && y_step == 1) {
    for (int64_t i = 0; i < count; ++i) f(x[i], y[i]);
  } else if (x_step == 0 && y_step == 1) {
    const X value = *x;
    for (int64_t i = 0; i < count; ++i) f(value, y[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) f(x[i * x_step], y[i * y_step]);
  }
}

template <class X, class Y, class F>
void map(const ConstView& x, const View& y, F f) {
  const Loop<2> loop(y.shape, {x.strides, y.strides});
  const int64_t x_step = loop.inner_stride(0), y_step = loop.inner_stride(1);
  loop.run([&](const std::array<int64_t, 2>& offset, int64_t begin, int64_t end) {
    map_piece(static_cast<const X*>(x.data) + offset[0] + begin * x_step, x_step,
              static_cast<Y*>(y.data) + offset[1] + begin * y_step, y_step, end - begin, f);
  });
}

template <class T, class F>
void combine(const ConstView& a, const ConstView& b, const View& y, F f) {
  const Loop<3> loop(y.shape, {a.strides, b.strides, y.strides});
  const int64_t a_step = loop.inner_stride(0), b_step = loop.inner_stride(1), y_step = loop.inner_stride(2);
  loop.run([&](const std::array<int64_t, 3>& offset, int64_t begin, int64_t end) {
    const T* pa = static_cast<const T*>(a.data) + offset[0] + begin * a_step;
    const T* pb = static_cast<const T*>(b.data) + offset[1] + begin * b_step;
    T* py = static_cast<T*>(y.data) + offset[2] + begin * y_step;
    const int64_t count = end - begin;
    if (a_step == 1 && b_step == 1 && y_step == 1) {
      for (int64_t i = 0; i < count; ++i) py[i] = f(pa[i], pb[i]);
    } else {
      for (int64_t i = 0; i < count; ++i) py[i * y_step] = f(pa[i * a_step], pb[i * b_step]);
    }
  });
}

void move(const ConstView& x, const View& y) {
  with_bits(y.dtype, [&](auto bits) {
    using T = decltype(bits);
    map<T, T>(x, y, [](const T& from, T& to) { to = from; });
  });
}

template <class From, class To>
void convert_directly(const ConstView& x, const View& y) {
  map<From, To>(x, y, [](const From& value, To& result) { result = convert<To>(value); });
}

/// The conversion between two types of weights and activations; null for all other pairs.
auto direct_conversion(DType from, DType to) -> void (*)(const ConstView&, const View&) {
  if (from == DType::f32 && to == DType::bf16) return convert_directly<float, BFloat16>;
  if (from == DType::bf16 && to == DType::f32) return convert_directly<BFloat16, float>;
  if (from == DType::f32 && to == DType::f16) return convert_directly<float, Float16>;
  if (from == DType::f16 && to == DType::f32) return convert_directly<Float16, float>;
  if (from == DType::f32 && to == DType::f64) return convert_directly<float, double>;
  if (from == DType::f64 && to == DType::f32) return convert_directly<double, float>;
  return nullptr;
}

/// Elements of one row: `count` of them, `step` apart, the first at data[begin].
template <class Data>
struct Piece {
  Data* data;
  int64_t begin, step, count;
};

/// Converts a piece to or from W, a type that holds every value of the other one.
template <class W>
void widen(DType dtype, const Piece<const void>& from, W* to) {
  with_type(dtype, [&](auto type) {
    using T = decltype(type);
    if constexpr (std::is_integral_v<T> == std::is_integral_v<W>) {
      const T* x = static_cast<const T*>(from.data) + from.begin;
      for (int64_t i = 0; i < from.count; ++i) to[i] = convert<W>(x[i * from.step]);
    }
  });
}
template <class W>
void narrow(DType dtype, const W* from, const Piece<void>& to) {
  with_type(dtype, [&](auto type) {
    using T = decltype(type);
    T* y = static_cast<T*>(to.data) + to.begin;
    for (int64_t i = 0; i < to.count; ++i) y[i * to.step] = convert<T>(from[i]);
  });
}

/// Converts any other pair of types through W, which needs a function for each type instead of one for each pair.
template <class W>
void convert_through(const ConstView& x, const View& y) {
  constexpr int64_t kChunk = 512;
  const Loop<2> loop(y.shape, {x.strides, y.strides});
  const int64_t x_step = loop.inner_stride(0), y_step = loop.inner_stride(1);
  loop.run([&](const std::array<int64_t, 2>& offset, int64_t begin, int64_t end) {
    W wide[kChunk];
    for (int64_t at = begin; at < end; at += kChunk) {
      const int64_t count = std::min(kChunk, end - at);
      widen<W>(x.dtype, {x.data, offset[0] + at * x_step, x_step, count}, wide);
      narrow<W>(y.dtype, wide, {y.data, offset[1] + at * y_step, y_step, count});
    }
  });
}

bool is_integral(DType dtype) {
  bool result = false;
  with_type(dtype, [&](auto type) { result = std::is_integral_v<decltype(type)>; });
  return result;
}

}  // namespace

void copy(ConstView x, View y) {
  if (x.dtype == y.dtype) return move(x, y);
  if (const auto direct = direct_conversion(x.dtype, y.dtype)) return direct(x, y);
  is_integral(x.dtype) ? convert_through<int64_t>(x, y) : convert_through<double>(x, y);
}

void fill(View y, double value) {
  alignas(double) std::byte element[sizeof(double)];
  narrow<double>(y.dtype, &value, {element, 0, 1, 1});
  move({element, y.dtype, y.shape, Strides(std::vector<int64_t>(static_cast<size_t>(y.rank()), 0))}, y);
}

void affine(ConstView x, double scale, double shift, View y) {
  with_float(y.dtype, "affine", [&](auto type) {
    using T = decltype(type);
    const T a = static_cast<T>(scale), b = static_cast<T>(shift);
    map<T, T>(x, y, [a, b](const T& value, T& result) { result = a * value + b; });
  });
}

void accumulate(ConstView x, View y) {
  with_float(y.dtype, "accumulate", [&](auto type) {
    using T = decltype(type);
    map<T, T>(x, y, [](const T& value, T& result) { result += value; });
  });
}

void binary(BinaryKind kind, ConstView a, ConstView b, View y) {
  with_float(y.dtype, "binary", [&](auto type) {
    using T = decltype(type);
    switch (kind) {
      case BinaryKind::add:
        return combine<T>(a, b, y, [](T p, T q) { return p + q; });
      case BinaryKind::subtract:
        return combine<T>(a, b, y, [](T p, T q) { return p - q; });
      case BinaryKind::multiply:
        return combine<T>(a, b, y, [](T p, T q) { return p * q; });
      case BinaryKind::divide:
        return combine<T>(a, b, y, [](T p, T q) { return p / q; });
    }
  });
}

void zero_padding(ConstView x, ConstRows lengths, View y) {
  const auto* counts = static_cast<const int64_t*>(lengths.data);
  const auto position = static_cast<size_t>(x.shape[2]) * size_of(x.dtype);
  const size_t row = position * static_cast<size_t>(x.shape[1]);
  parallel_for(x.shape[0], [&](int64_t b) {
    const size_t kept = position * static_cast<size_t>(counts[b]), begin = row * static_cast<size_t>(b);
    std::byte* const to = static_cast<std::byte*>(y.data) + begin;
    std::memcpy(to, static_cast<const std::byte*>(x.data) + begin, kept);
    std::memset(to + kept, 0, row - kept);  // 0 has these bits in every float type
  });
}

}  // namespace attend::cpu
