// The causal mask: a word may attend to itself and to the words before it, but not to later ones.
#include <attend/ops/arithmetic.h>
#include <attend/ops/attention.h>
#include <attend/ops/shape.h>
#include <attend/ops/softmax.h>
#include <attend/tensor/creation.h>

#include "show.h"

using namespace attend;
using namespace example;

int main() {
  // A model that predicts the next word must not see it. The mask sets the scores of later words to −∞, and e^−∞ = 0.
  const float inf = INFINITY;
  const Tensor scores = tensor<float>({1, 2, 3,  //
                                       1, 1, 9,  //
                                       0, 0, 0},
                                      {3, 3});
  const Tensor mask = tensor<float>({0, -inf, -inf,  //
                                     0, 0, -inf,     //
                                     0, 0, 0},
                                    {3, 3});
  const Tensor weights = softmax(scores + mask);
  show("softmax(scores + mask)", weights);
  const float third = 1.0f / 3;
  claim(difference(weights, tensor<float>({1, 0, 0, 0.5f, 0.5f, 0, third, third, third}, {3, 3})) < 1e-6,
        "later words have weight 0, and every row still adds up to 1");

  // The fused attention has an option for it, and does not compute the masked scores at all.
  const Tensor q = normal({1, 1, 5, 4}, 0, 1, {.seed = 1}), k = normal({1, 1, 5, 4}, 0, 1, {.seed = 2});
  const Tensor v = normal({1, 1, 5, 4}, 0, 1, {.seed = 3});
  const AttentionOptions causal{.causal = true};
  const auto [before, lse] = attention_with_lse(q, k, v, causal);
  show("weights of attention(q, k, v, {.causal = true})", attention_weights(q, k, lse, causal).values);

  // Proof: changing the last word's key and value, even to NaN, does not change the results of the words before it.
  const Tensor last = full({1, 1, 1, 4}, NAN);
  const auto changed = [&](const Tensor& t) { return concat({slice(t, 2, 0, 4), last}, 2); };
  const Tensor after = attention(q, changed(k), changed(v), causal);
  claim(difference(slice(before, 2, 0, 4), slice(after, 2, 0, 4)) == 0, "earlier results do not change, bit for bit");
  return failures();
}
