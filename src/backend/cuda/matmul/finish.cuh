#pragma once

#include "backend/cuda/activation.cuh"
#include "backend/kernels.h"

namespace attend::cuda {

/// What happens to an element of x · weightᵀ + bias before it is stored.
struct Finish {
  void* y = nullptr;
  int64_t y_stride = 0;
  const float* residual = nullptr;
  int64_t residual_stride = 0;
  const int64_t* places = nullptr;
  UnaryKind kind = UnaryKind::relu;
  bool activates = false;
  bool is_bf16 = false;  ///< y

  static Finish of(const WeightProduct& product) {
    return {.y = product.y.data,
            .y_stride = product.y.stride,
            .residual = static_cast<const float*>(product.residual.data),
            .residual_stride = product.residual.stride,
            .places = static_cast<const int64_t*>(product.places.data),
            .kind = product.activation.value_or(UnaryKind::relu),
            .activates = product.activation.has_value(),
            .is_bf16 = product.y.dtype == DType::bf16};
  }

  /// What put() reads, so that it can be read before the value is known.
  struct Ahead {
    float residual = 0;
    int64_t row = 0;
  };
  __device__ Ahead ahead(int64_t row, int64_t column) const {
    return {.residual = residual != nullptr ? residual[row * residual_stride + column] : 0.0f,
            .row = places != nullptr ? places[row] : row};
  }

  __device__ void put(int64_t row, int64_t column, float value) const { put(row, column, value, ahead(row, column)); }
  __device__ void put(int64_t, int64_t column, float value, const Ahead& held) const {
    if (activates) {
      with_function(kind, [&](auto function) { value = function.template value<float>(value); });
    }
    if (residual != nullptr) value = __fadd_rn(held.residual, value);  // rounded on its own in every kernel
    const int64_t at = held.row * y_stride + column;
    if (is_bf16) {
      static_cast<BFloat16*>(y)[at] = narrow<BFloat16>(value);
    } else {
      static_cast<float*>(y)[at] = value;
    }
  }
};

}  // namespace attend::cuda
