#pragma once

#include <cmath>
#include <deque>
#include <functional>
#include <vector>

#include "backend/kernels.h"

namespace attend::testing {

/// Arguments of a kernel with copies in f32 in place of all data of 16 bits. Lets kernels of the CPU, which compute in
/// f32, take the place of a GPU's. Results are rounded when the Widening ends.
class Widening {
 public:
  Widening() = default;
  Widening(const Widening&) = delete;
  Widening& operator=(const Widening&) = delete;
  ~Widening() {
    for (const auto& round : rounding_) round();
  }

  template <class T>
  const T& operator()(const T& other) {
    return other;
  }
  template <class Pointer>
  BasicView<Pointer> operator()(const BasicView<Pointer>& view) {
    if (!view || size_of(view.dtype) != 2 || !is_floating(view.dtype)) return view;
    int64_t first = 0, last = 0;
    for (int64_t axis = 0; axis < view.rank(); ++axis) {
      const int64_t end = (view.shape[axis] - 1) * view.strides[axis];
      (end < 0 ? first : last) += end;
    }
    BasicView<Pointer> wide = view;
    wide.dtype = DType::f32;
    if (view.shape.numel() > 0) wide.data = widened(view.data, view.dtype, first, last + 1) - first;
    return wide;
  }
  template <class Pointer>
  BasicRows<Pointer> operator()(const BasicRows<Pointer>& rows) {
    if (!rows || size_of(rows.dtype) != 2 || !is_floating(rows.dtype)) return rows;
    BasicRows<Pointer> wide = rows;
    wide.dtype = DType::f32;
    if (rows.numel() > 0) wide.data = widened(rows.data, rows.dtype, 0, (rows.rows - 1) * rows.stride + rows.cols);
    return wide;
  }
  MatmulOptions operator()(MatmulOptions options) {
    options.bias = (*this)(options.bias);
    options.residual = (*this)(options.residual);
    options.row_sums = (*this)(options.row_sums);
    options.bf16 = false;  // not every CPU has such products
    return options;
  }
  AttentionProblem operator()(AttentionProblem problem) {
    if (problem.page_table) {
      for (ConstView* part : {&problem.k, &problem.v}) *part = gathered(problem, *part);
      problem.page_table = problem.table_rows = problem.runs = {};
    }
    for (ConstView* part : {&problem.q, &problem.k, &problem.v, &problem.bias, &problem.alibi}) *part = (*this)(*part);
    return problem;
  }
  AttentionGradients operator()(AttentionGradients gradients) {
    for (ConstView* part : {&gradients.y, &gradients.dy, &gradients.lse}) *part = (*this)(*part);
    for (View* part : {&gradients.dq, &gradients.dk, &gradients.dv, &gradients.dbias}) *part = (*this)(*part);
    return gradients;
  }

 private:
  /// A copy of the elements [first, end) of 16 bits. Returns the copy of element `first`.
  template <class Pointer>
  float* widened(Pointer data, DType dtype, int64_t first, int64_t end) {
    std::vector<float>& copy = copies_.emplace_back(static_cast<size_t>(end - first));
    const auto* from = static_cast<const uint16_t*>(data) + first;
    const bool is_bf16 = dtype == DType::bf16;
    for (size_t i = 0; i < copy.size(); ++i) {
      copy[i] = is_bf16 ? to_float(BFloat16{from[i]}) : to_float(Float16{from[i]});
    }
    if constexpr (std::is_same_v<Pointer, void*>) {
      rounding_.push_back([&copy, is_bf16, to = static_cast<uint16_t*>(data) + first] {
        for (size_t i = 0; i < copy.size(); ++i) {
          to[i] = is_bf16 ? to_bfloat16(copy[i]).bits : to_float16(copy[i]).bits;
        }
      });
    }
    return copy.data();
  }

  /// Keys or values in pages as a dense tensor. Keys behind a length are NaN.
  ConstView gathered(const AttentionProblem& problem, const ConstView& pages) {
    const int64_t batch = pages.shape[0], heads = pages.shape[1], keys = pages.shape[2], dim = pages.shape[3];
    std::vector<float>& copy = copies_.emplace_back(static_cast<size_t>(pages.shape.numel()), NAN);
    const auto* table = static_cast<const int64_t*>(problem.page_table.data);
    const auto* lengths = static_cast<const int64_t*>(problem.lengths.data);
    const auto* rows = static_cast<const int64_t*>(problem.table_rows.data);
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t key = 0; key < lengths[b]; ++key) {
        const int64_t page = table[rows[b] * problem.page_table.strides[0] + key / kPageKeys];
        for (int64_t head = 0; head < heads; ++head) {
          const int64_t from = (page * kPageKeys + key % kPageKeys) * pages.strides[2] + head * pages.strides[1];
          float* to = copy.data() + ((b * heads + head) * keys + key) * dim;
          for (int64_t d = 0; d < dim; ++d) {
            to[d] = pages.dtype == DType::f32 ? static_cast<const float*>(pages.data)[from + d]
                                              : to_float(static_cast<const BFloat16*>(pages.data)[from + d]);
          }
        }
      }
    }
    return {copy.data(), DType::f32, pages.shape, contiguous_strides(pages.shape)};
  }

  std::deque<std::vector<float>> copies_;  // never move
  std::vector<std::function<void()>> rounding_;
};

}  // namespace attend::testing
