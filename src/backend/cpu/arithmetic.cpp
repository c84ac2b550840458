#include <cstring>
#include <vector>

#include "backend/cpu/cpu.h"
#include "backend/cpu/strided.h"

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

}  // namespace

void copy(ConstView x, View y) {
  with_type(x.dtype, [&](auto from) {
    with_type(y.dtype, [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      map<From, To>(x, y, [](const From& value, To& result) { result = convert<To>(value); });
    });
  });
}

void fill(View y, double value) {
  with_type(y.dtype, [&](auto type) {
    using T = decltype(type);
    const T converted = convert<T>(value);
    const ConstView source{&converted, y.dtype, y.shape,
                           Strides(std::vector<int64_t>(static_cast<size_t>(y.rank()), 0))};
    map<T, T>(source, y, [](const T& from, T& to) { to = from; });
  });
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
