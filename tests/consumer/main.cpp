#include <attend/ops/attention.h>
#include <attend/tensor/creation.h>
#include <attend/text/segment.h>

#include <cmath>
#include <cstdio>

// One query looks at two keys with scores 0 and ln 3, so with weights 1/4 and 3/4, at the values 4 and 8: 1/4 · 4 + 3/4
// · 8.
int main() {
  using attend::tensor;
  const auto q = tensor<double>({1.0}, {1, 1, 1, 1});
  const auto k = tensor<double>({0.0, std::log(3.0)}, {1, 1, 2, 1});
  const auto v = tensor<double>({4.0, 8.0}, {1, 1, 2, 1});
  const double result = attend::attention(q, k, v).item();
  std::printf("%.6f\n", result);
  return std::abs(result - 7.0) < 1e-12 && attend::display_width("今天") == 4 ? 0 : 1;
}
