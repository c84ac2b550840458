// Dropout: training sets some attention weights to 0 at random, so that no word relies on a single other word.
#include <attend/ops/attention.h>
#include <attend/ops/dropout.h>
#include <attend/ops/reduce.h>
#include <attend/tensor/creation.h>

#include "show.h"

using namespace attend;
using namespace example;

int main() {
  // Each number is set to 0 with probability p. The others are divided by 1 − p, so that the expected sum is the same.
  const double p = 0.5;
  const Tensor x = ones({4, 8});
  const Tensor dropped = dropout(x, p, {.seed = 7});
  show("dropout(ones, 0.5)", dropped);
  const auto values = dropped.to_vector();
  claim(std::ranges::all_of(values, [](float v) { return v == 0 || v == 2; }),
        "kept values are divided by 1 − p = 1/2");
  const double average = mean(dropout(ones({1000, 1000}), p, {.seed = 7})).item();
  std::printf("mean of a million: %.4f\n", average);
  claim(std::abs(average - 1) < 0.01, "the mean stays 1");

  // Randomness is an argument: the same seed drops the same elements, on any number of threads.
  claim(difference(dropped, dropout(x, p, {.seed = 7})) == 0, "the same seed, the same mask");
  claim(difference(dropped, dropout(x, p, {.seed = 8})) > 0, "another seed, another mask");

  // Inside attention, dropout applies to the weights. With values of 1, the output is the sum of the kept weights.
  const Tensor q = normal({1, 1, 6, 4}, 0, 1, {.seed = 1}), k = normal({1, 1, 6, 4}, 0, 1, {.seed = 2});
  const Tensor v = ones({1, 1, 6, 1});
  const Tensor whole = attention(q, k, v);
  const Tensor thinned = attention(q, k, v, {.dropout = p, .random = {.seed = 3}});
  show("sum of weights, without dropout", whole);
  show("sum of weights, with dropout", thinned);
  claim(difference(whole, ones({1, 1, 6, 1})) < 1e-5, "without dropout the weights add up to 1");
  claim(difference(whole, thinned) > 0.1, "with dropout they vary from row to row");
  return failures();
}
