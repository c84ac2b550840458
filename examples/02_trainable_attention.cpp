// Attention that can learn: three matrices compute queries, keys and values from x.
#include <attend/autograd/autograd.h>
#include <attend/nn/linear.h>
#include <attend/ops/arithmetic.h>
#include <attend/ops/attention.h>
#include <attend/ops/matmul.h>
#include <attend/ops/reduce.h>
#include <attend/ops/shape.h>
#include <attend/ops/softmax.h>
#include <attend/tensor/creation.h>

#include "show.h"

using namespace attend;
using namespace example;

int main() {
  Rng rng{.seed = 1};
  const int64_t length = 4, dim = 3, width = 2;
  const Tensor x = normal({length, dim}, 0, 1, rng.stream());

  // What a word looks for (query), what it is found by (key) and what it passes on (value) are different vectors.
  const Linear query = Linear::create({.in = dim, .out = width, .bias = false}, rng);
  const Linear key = Linear::create({.in = dim, .out = width, .bias = false}, rng);
  const Linear value = Linear::create({.in = dim, .out = width, .bias = false}, rng);
  const Tensor q = query.forward(x), k = key.forward(x), v = value.forward(x);  // [4, 2] each

  // Dividing by √width makes the variance of the scores independent of the width, so that softmax does not saturate.
  const Tensor scores = matmul(q, transpose(k, 0, 1)) * (1 / std::sqrt(double(width)));
  const Tensor weights = softmax(scores);
  const Tensor by_hand = matmul(weights, v);
  show("weights", weights);
  show("context", by_hand);

  // The same in one call, on [batch, heads, length, width]. The default scale is 1/√width.
  const auto lift = [](const Tensor& t) { return reshape(t, {1, 1, t.dim(0), t.dim(1)}); };
  const Tensor fused = attention(lift(q), lift(k), lift(v));
  claim(difference(fused, by_hand) < 1e-5, "attention(q, k, v) = softmax(q kᵀ / √d) v");

  // Learning: a loss on the result has a gradient with respect to each of the three matrices.
  backward(sum(fused * fused));
  show("gradient of Wq", grad(query.weight));
  for (const Linear* layer : {&query, &key, &value}) {
    claim(difference(grad(layer->weight), zeros({width, dim})) > 1e-4, "a matrix received its gradient");
  }
  return failures();
}
