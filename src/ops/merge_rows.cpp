#include "ops/merge_rows.h"

#include <cmath>
#include <limits>

#include "attend/base/threads.h"

namespace attend {
namespace {

constexpr int64_t kRowGrain = 256;  // rows that a thread takes at once

/// Calls body(b, h, i) for each row of [batch, heads, length, …], in parallel.
template <class Body>
void for_each_row(const Tensor& x, Body&& body) {
  const int64_t heads = x.dim(1), length = x.dim(2);
  parallel_ranges(x.dim(0) * heads * length, kRowGrain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) body(row / length / heads, row / length % heads, row % length);
  });
}

template <class T>
T* row_of(const Tensor& x, int64_t b, int64_t h, int64_t i) {
  const Strides& step = x.strides();
  return static_cast<T*>(x.raw()) + b * step[0] + h * step[1] + i * step[2];
}

template <class T>
void add_rows(const Tensor& x, const Tensor& sum) {
  const int64_t width = x.dim(3);
  for_each_row(x, [&](int64_t b, int64_t h, int64_t i) {
    const T* from = row_of<T>(x, b, h, i);
    T* to = row_of<T>(sum, b, h, i);
    for (int64_t d = 0; d < width; ++d) to[d] += from[d];
  });
}

}  // namespace

void add_to(const Tensor& sum, const Tensor& x) {
  x.dtype() == DType::f32 ? add_rows<float>(x, sum) : add_rows<double>(x, sum);
}

namespace {

/// With the weights of the two parts w = e^(lse − max): y = (w₁ y₁ + w₂ y₂) / (w₁ + w₂), lse = max + ln(w₁ + w₂).
template <class T>
void merge_rows(const AttentionResult& fresh, const AttentionResult& total) {
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  const int64_t width = fresh.output.dim(3);
  for_each_row(fresh.output, [&](int64_t b, int64_t h, int64_t i) {
    const auto lse = static_cast<double>(*row_of<T>(fresh.lse, b, h, i));
    double& merged = *row_of<double>(total.lse, b, h, i);
    if (lse == kNone) return;
    const double most = merged == kNone ? lse : std::max(merged, lse);
    const double before = std::exp(merged - most), now = std::exp(lse - most), sum = before + now;
    merged = most + std::log(sum);
    const T old_weight = static_cast<T>(before / sum), weight = static_cast<T>(now / sum);
    const T* from = row_of<T>(fresh.output, b, h, i);
    T* y = row_of<T>(total.output, b, h, i);
    for (int64_t d = 0; d < width; ++d) y[d] = old_weight * y[d] + weight * from[d];
  });
}

}  // namespace

void merge_attention(const AttentionResult& fresh, const AttentionResult& total) {
  fresh.output.dtype() == DType::f32 ? merge_rows<float>(fresh, total) : merge_rows<double>(fresh, total);
}

}  // namespace attend
