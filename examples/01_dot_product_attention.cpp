// Attention in its simplest form: dot products, softmax, weighted sum. It has no parameters and learns nothing.
#include <attend/ops/attention.h>
#include <attend/ops/matmul.h>
#include <attend/ops/shape.h>
#include <attend/ops/softmax.h>
#include <attend/tensor/creation.h>

#include "show.h"

using namespace attend;
using namespace example;

int main() {
  // Three words, each a vector of two numbers. The first two vectors point in a similar direction, the third does not.
  const Tensor x = tensor<float>({2.0f, 0.0f,   // "cat"
                                  1.5f, 0.5f,   // "kitten"
                                  0.0f, 2.0f},  // "car"
                                 {3, 2});

  // The similarity of two words is the dot product of their vectors. One matrix product computes it for all pairs.
  const Tensor scores = matmul(x, transpose(x, 0, 1));  // [3, 3]
  show("scores = x · xᵀ", scores);
  claim(difference(select(scores, 0, 0), tensor<float>({4.0f, 3.0f, 0.0f}, {3})) < 1e-6, "cat·cat = 4, cat·kitten = 3");

  // Softmax turns each row of scores into weights that add up to 1: how a word distributes its attention.
  const Tensor weights = softmax(scores);
  show("weights = softmax(scores)", weights);
  const auto w = weights.to_vector();
  claim(std::abs(w[0] + w[1] + w[2] - 1) < 1e-6, "a row of weights adds up to 1");
  claim(w[1] > 10 * w[2], "cat attends to kitten far more than to car");

  // The output for a word: the sum of all word vectors, weighted by its row.
  const Tensor context = matmul(weights, x);  // [3, 2]
  show("context = weights · x", context);

  // The library fuses the three steps and never stores the 3 × 3 weights.
  claim(difference(context, self_attention(x)) < 1e-5, "self_attention(x) gives the same");
  return failures();
}
