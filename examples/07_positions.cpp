// Positions: attention by itself ignores the order of words. Three ways to encode the order.
#include <attend/ops/arithmetic.h>
#include <attend/ops/attention.h>
#include <attend/ops/matmul.h>
#include <attend/ops/position.h>
#include <attend/ops/shape.h>
#include <attend/tensor/creation.h>

#include "show.h"

using namespace attend;
using namespace example;

int main() {
  const int64_t dim = 8;
  const Tensor dog = normal({1, dim}, 0, 0.5, {.seed = 1}), bites = normal({1, dim}, 0, 0.5, {.seed = 2});
  const Tensor man = normal({1, dim}, 0, 0.5, {.seed = 3});
  const Tensor one = concat({dog, bites, man}, 0), other = concat({man, bites, dog}, 0);  // [3, dim]

  // "dog bites man" and "man bites dog": without positions, the verb's output is the same in both.
  const auto verb = [](const Tensor& x) { return select(self_attention(x), 0, 1); };
  claim(difference(verb(one), verb(other)) < 1e-5, "without positions, the order has no effect");

  // Sinusoidal: sine and cosine waves, added to the vectors ("Attention Is All You Need" §3.5).
  const Tensor waves = sinusoidal_positions(3, dim);
  show("sinusoidal positions", waves);
  claim(difference(verb(one + waves), verb(other + waves)) > 0.01, "with positions added, it has");

  // Rotary: pairs of features are rotated by an angle proportional to the position. The dot product of two rotated
  // vectors depends only on their distance.
  const auto score = [&](int64_t at, int64_t distance) {
    const Tensor q = rope(dog, {.offset = at + distance}), k = rope(man, {.offset = at});
    return matmul(q, transpose(k, 0, 1)).item();
  };
  std::printf("rotary scores, two apart: %.4f at 0, %.4f at 100; five apart: %.4f\n", score(0, 2), score(100, 2),
              score(0, 5));
  claim(std::abs(score(0, 2) - score(100, 2)) < 1e-3, "rotary scores depend on the distance, not on the position");
  claim(std::abs(score(0, 2) - score(0, 5)) > 1e-3, "another distance, another score");

  // ALiBi: the vectors stay unchanged; scores fall linearly with the distance, with a different slope for each head.
  const Tensor slopes = alibi_slopes(4);
  show("ALiBi's slopes of 4 heads", slopes);
  claim(difference(slopes, tensor<float>({0.25f, 0.0625f, 0.015625f, 0.00390625f}, {4})) < 1e-7, "1/4, 1/16, 1/64, …");
  return failures();
}
