#pragma once

#include <vector>

#include "attend/tensor/creation.h"

namespace attend::testing {

/// Pseudo-random values in [-1, 1), determined by the seed. Computed without kernels, so that tests of a kernel need no
/// other kernel.
Tensor host_values(const Shape& shape, uint64_t seed, DType dtype = DType::f64);

/// x · weightᵀ + bias in doubles, for matrices that are small enough to be copied; bias may be empty.
std::vector<double> naive_linear(const Tensor& x, const Tensor& weight, const Tensor& bias);

/// Element i of a dense tensor on any device, in row-major order.
inline double element(const Tensor& x, int64_t i) { return x.to_vector<double>()[static_cast<size_t>(i)]; }
/// Sets element i of a dense tensor on any device.
inline void set_element(const Tensor& x, int64_t i, double value) {
  const Tensor place = x.as_strided({1}, {1}, x.offset() + i);
  copy_values(tensor<double>({value}, {1}), place);
}

/// Reads elements of a strided view by index, as doubles. For naive reference implementations.
class Reader {
 public:
  explicit Reader(const Tensor& x) : values_(x.to_vector<double>()), strides_(contiguous_strides(x.shape())) {}
  template <class... Places>
  double operator()(Places... places) const {
    int64_t offset = 0, axis = 0;
    ((offset += places * strides_[axis++]), ...);
    return values_[static_cast<size_t>(offset)];
  }

 private:
  std::vector<double> values_;
  Strides strides_;
};

}  // namespace attend::testing
