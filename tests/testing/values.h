#pragma once

#include <vector>

#include "attend/base/random.h"
#include "attend/tensor/creation.h"

namespace attend::testing {

/// Pseudo-random values in [-1, 1), determined by the seed. Computed without kernels, so that tests of a kernel need no
/// other kernel.
inline Tensor host_values(const Shape& shape, uint64_t seed, DType dtype = DType::f64) {
  std::vector<double> values(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = 2.0 * static_cast<double>(uniform_from_bits(philox(seed, i, 0)[0])) - 1.0;
  }
  return to(tensor(values, shape), dtype);
}

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
