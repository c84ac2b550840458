#pragma once

#include <attend/tensor/tensor.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

// Helpers of the examples: printing a tensor, and checking claims.
namespace example {

/// Prints a tensor; each line is a row along its last axis.
inline void show(const char* name, const attend::Tensor& tensor) {
  std::printf("%s\n", name);
  const auto values = tensor.to_vector();
  const auto columns = static_cast<size_t>(tensor.rank() == 0 ? 1 : tensor.dim(-1));
  for (size_t i = 0; i < values.size(); ++i) std::printf("%8.3f%s", values[i], (i + 1) % columns == 0 ? "\n" : "");
}

/// The largest absolute difference between two tensors of the same shape.
inline double difference(const attend::Tensor& a, const attend::Tensor& b) {
  const auto x = a.to_vector<double>(), y = b.to_vector<double>();
  if (x.size() != y.size()) return INFINITY;
  double largest = 0;
  for (size_t i = 0; i < x.size(); ++i) largest = std::max(largest, std::abs(x[i] - y[i]));
  return largest;
}

/// The number of claims that did not hold; the exit code of main.
inline int& failures() {
  static int count = 0;
  return count;
}
inline void claim(bool holds, const char* what) {
  std::printf("%s %s\n", holds ? "✓" : "✗ WRONG:", what);
  if (!holds) ++failures();
}

}  // namespace example
