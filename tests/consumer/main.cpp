#include <attend/autograd/autograd.h>
#include <attend/ops/softmax.h>
#include <attend/tensor/creation.h>

#include <cmath>
#include <cstdio>

// softmax([0, ln 3]) = [1/4, 3/4].
int main() {
  const attend::Tensor weights = attend::softmax(attend::tensor<double>({0, std::log(3.0)}, {1, 2}));
  const auto values = weights.to_vector<double>();
  std::printf("%.6f %.6f\n", values[0], values[1]);
  return std::abs(values[0] - 0.25) < 1e-12 && std::abs(values[1] - 0.75) < 1e-12 ? 0 : 1;
}
