#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "backend/cpu/cpu.h"
#include "backend/cpu/strided.h"

// The kernels of a generation step, for the CPU as a reference; generation on the CPU has its own, host-side ways.
namespace attend::cpu {
namespace {

template <class T>
T* row_of(const Rows& x, int64_t row) {
  return static_cast<T*>(x.data) + row * x.stride;
}

std::byte* address_of(const Rows& x, int64_t row) {
  return static_cast<std::byte*>(x.data) + row * x.stride * static_cast<int64_t>(size_of(x.dtype));
}
const std::byte* address_of(const ConstRows& x, int64_t row) {
  return static_cast<const std::byte*>(x.data) + row * x.stride * static_cast<int64_t>(size_of(x.dtype));
}

int64_t number_at(const ConstRows& x, int64_t i) {
  return static_cast<const int64_t*>(x.data)[i / x.cols * x.stride + i % x.cols];
}

}  // namespace

void put_rows(ConstRows x, ConstRows places, Rows y) {
  for (int64_t i = 0; i < x.rows; ++i) {
    copy({address_of(x, i), x.dtype, {x.cols}, {1}}, {address_of(y, number_at(places, i)), y.dtype, {x.cols}, {1}});
  }
}

void copy_runs(ConstRows x, ConstRows copies, int64_t, Rows y) {
  parallel_for(copies.rows, [&](int64_t i) {
    const int64_t from = number_at(copies, 3 * i), to = number_at(copies, 3 * i + 1),
                  count = number_at(copies, 3 * i + 2);
    for (int64_t row = 0; row < count; ++row) {
      std::memcpy(address_of(y, to + row), address_of(x, from + row), static_cast<size_t>(x.cols) * size_of(x.dtype));
    }
  });
}

void embed_tokens(const WeightMatrix& tokens, ConstRows ids, const WeightMatrix& positions, ConstRows places, Rows y) {
  std::vector<float> added(static_cast<size_t>(y.numel()));
  const Rows second{added.data(), DType::f32, y.rows, y.cols, y.cols};
  take_weight_rows(tokens, ids, y);
  take_weight_rows(positions, places, second);
  for (int64_t i = 0; i < y.rows; ++i) {
    for (int64_t p = 0; p < y.cols; ++p) row_of<float>(y, i)[p] += row_of<float>(second, i)[p];
  }
}

void best(ConstRows x, int64_t words, Rows y) {
  const int64_t most = (y.cols - 2) / 2;
  log_softmax_terms(x, {y.data, DType::f32, y.rows, 2, y.stride});
  parallel_for(x.rows, [&](int64_t row) {
    const auto* from = static_cast<const float*>(x.data) + row * x.stride;
    std::vector<int32_t> order;
    for (int64_t i = 0; i < words; ++i) {
      if (!std::isnan(from[i])) order.push_back(static_cast<int32_t>(i));
    }
    const auto count = std::min<ptrdiff_t>(most, std::ssize(order));
    std::ranges::partial_sort(order, order.begin() + count,
                              [&](int32_t a, int32_t b) { return from[a] != from[b] ? from[a] > from[b] : a < b; });
    float* values = row_of<float>(y, row) + 2;
    for (int64_t i = 0; i < most; ++i) {
      values[i] = i < count ? from[order[static_cast<size_t>(i)]] : -std::numeric_limits<float>::infinity();
      values[most + i] = i < count ? static_cast<float>(order[static_cast<size_t>(i)]) : -1.0f;
    }
  });
}

}  // namespace attend::cpu
