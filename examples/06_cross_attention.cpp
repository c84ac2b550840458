// Cross-attention: one sequence attends to another, as a translation attends to its source.
#include <attend/nn/multihead_attention.h>
#include <attend/ops/shape.h>
#include <attend/tensor/creation.h>

#include "show.h"

using namespace attend;
using namespace example;

int main() {
  Rng rng{.seed = 2};
  const int64_t sources = 5, targets = 3, dim = 8;
  // Two sentences in one batch; the second has only 3 words, the rest is padding.
  const Tensor memory = normal({2, sources, dim}, 0, 1, rng.stream());  // the encoder's output for the source
  const Tensor x = normal({2, targets, dim}, 0, 1, rng.stream());       // the translation so far
  const MaskOptions padding{.lengths = tensor<int64_t>({5, 3}, {2})};

  // Queries come from the target, keys and values from the source. The weights are targets × sources.
  const auto layer = MultiheadAttention::create({.dim = dim, .heads = 2}, rng);
  const TracedAttention result = layer.forward_traced({x, memory, memory}, padding);
  const Tensor weights = result.trace.average_weights();  // [batch, targets, sources]
  show("attention weights, targets × sources, averaged over heads", weights);
  claim(result.output.shape() == Shape({2, targets, dim}), "the result has the target's length");
  claim(weights.shape() == Shape({2, targets, sources}), "the weights are targets × sources");

  // Padding gets a weight of exactly 0, so its contents do not matter.
  const Tensor on_padding = slice(select(weights, 0, 1), 1, 3, 5);
  claim(difference(on_padding, zeros({targets, 2})) == 0, "padding has weight 0");
  const Tensor real = slice(memory, 1, 0, 3), garbage = full({2, 2, dim}, 1e6);
  const Tensor changed = layer.forward_cross(x, concat({real, garbage}, 1), padding);
  claim(difference(select(result.output, 0, 1), select(changed, 0, 1)) == 0, "garbage in the padding changes nothing");
  claim(difference(select(result.output, 0, 0), select(changed, 0, 0)) > 0, "in the sentence without padding it does");
  return failures();
}
