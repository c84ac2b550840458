#pragma once

#include <attend/tensor/tensor.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

// What every example needs: printing a matrix, and checking what it claims.
namespace example {

/// Prints a tensor as rows of its last axis.
inline void show(const char* name, const attend::Tensor& tensor) {
  std::printf("%s\n", name);
  const auto values = tensor.to_vector();
  const auto columns = static_cast<size_t>(tensor.rank() == 0 ? 1 : tensor.dim(-1));
  for (size_t i = 0; i < values.size(); ++i) std::printf("%8.3f%s", values[i], (i + 1) % columns == 0 ? "\n" : "");
}

/// The largest difference between two tensors of one shape.
inline double difference(const attend::Tensor& a, const attend::Tensor& b) {
  const auto x = a.to_vector<double>(), y = b.to_vector<double>();
  if (x.size() != y.size()) return INFINITY;
  double largest = 0;
  for (size_t i = 0; i < x.size(); ++i) largest = std::max(largest, std::abs(x[i] - y[i]));
  return largest;
}

/// Says whether a claim holds; main returns failures().
inline int& failures() {
  static int count = 0;
  return count;
}
inline void claim(bool holds, const char* what) {
  std::printf("%s %s\n", holds ? "✓" : "✗ WRONG:", what);
  if (!holds) ++failures();
}

}  // namespace example
