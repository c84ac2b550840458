#include <attend/base/error.h>
#include <attend/ops/attention.h>
#include <attend/tensor/creation.h>
#include <attend/text/segment.h>
#include <attend/version.h>

#include <cmath>
#include <cstdio>

// One query attends to two keys. The scores 0 and ln 3 give the weights 1/4 and 3/4, and the values are 4 and 8, so the
// result is 1/4 · 4 + 3/4 · 8 = 7.
int main() {
  using attend::tensor;
  const auto q = tensor<double>({1.0}, {1, 1, 1, 1});
  const auto k = tensor<double>({0.0, std::log(3.0)}, {1, 1, 2, 1});
  const auto v = tensor<double>({4.0, 8.0}, {1, 1, 2, 1});
  const double result = attend::attention(q, k, v).item();
  std::printf("attend %s: %.6f\n", attend::kVersion.data(), result);

  bool is_caught = false;  // the library's errors are caught by their types
  try {
    attend::attention(q, tensor<double>({1.0, 2.0}, {1, 1, 1, 2}), v);
  } catch (const attend::ShapeError& error) {
    is_caught = true;
  }
  return is_caught && std::abs(result - 7.0) < 1e-12 && attend::display_width("今天") == 4 ? 0 : 1;
}
