#include "testing/values.h"

#include "attend/base/random.h"

namespace attend::testing {

Tensor host_values(const Shape& shape, uint64_t seed, DType dtype) {
  std::vector<double> values(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = 2.0 * static_cast<double>(uniform_from_bits(philox(seed, i, 0)[0])) - 1.0;
  }
  return to(tensor(values, shape), dtype);
}

std::vector<double> naive_linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const auto xs = x.to_vector<double>(), ws = weight.to_vector<double>();
  const int64_t rows = x.dim(0), in = x.dim(1), out = weight.dim(0);
  std::vector<double> y;
  y.reserve(static_cast<size_t>(rows * out));
  const auto bs = bias ? bias.to_vector<double>() : std::vector<double>(static_cast<size_t>(out));
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < out; ++j) {
      const double *left = xs.data() + i * in, *right = ws.data() + j * in;
      double sum = bs[static_cast<size_t>(j)];
      for (int64_t p = 0; p < in; ++p) sum += left[p] * right[p];
      y.push_back(sum);
    }
  }
  return y;
}

}  // namespace attend::testing
