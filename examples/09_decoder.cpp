// A decoder: masked self-attention over the target so far, cross-attention to the source, and a feed-forward network.
#include <attend/nn/transformer.h>
#include <attend/ops/shape.h>
#include <attend/tensor/creation.h>

#include "show.h"

using namespace attend;
using namespace example;

int main() {
  Rng rng{.seed = 4};
  const int64_t dim = 16, sources = 5, targets = 4;
  const auto decoder = TransformerDecoder::create({.layer = {.dim = dim, .heads = 2, .ffn_dim = 32}, .layers = 2}, rng);
  const Tensor memory = normal({1, sources, dim}, 0, 1, rng.stream());  // from an encoder
  const Tensor written = normal({1, targets, dim}, 0, 1, rng.stream());
  const Tensor y = decoder.forward(written, memory);
  claim(y.shape() == Shape({1, targets, dim}), "one vector per position, to predict the next word from");

  // Causal: earlier positions do not see the last word. So all positions can be trained in one pass.
  const Tensor other = concat({slice(written, 1, 0, 3), normal({1, 1, dim}, 0, 1, rng.stream())}, 1);
  const Tensor changed = decoder.forward(other, memory);
  claim(difference(slice(y, 1, 0, 3), slice(changed, 1, 0, 3)) == 0, "earlier positions do not see the last word");
  claim(difference(slice(y, 1, 3, 4), slice(changed, 1, 3, 4)) > 0.01, "its own position does");

  // For the same reason a prefix alone gives the same vectors, so text can be generated word by word.
  const Tensor beginning = decoder.forward(slice(written, 1, 0, 2), memory);
  claim(difference(slice(y, 1, 0, 2), beginning) < 1e-5, "a prefix gives the same vectors as within the whole");

  // Every position sees the whole source.
  const Tensor elsewhere = decoder.forward(written, normal({1, sources, dim}, 0, 1, rng.stream()));
  claim(difference(select(y, 1, 0), select(elsewhere, 1, 0)) > 0.01, "another source, other vectors");

  // Each layer has self-attention and cross-attention, and a recorder keeps both. Here are those of the first layer.
  AttentionRecorder recorder;
  decoder.forward(written, memory, {}, {.observer = &recorder});
  claim(recorder.traces.size() == 4, "two layers, two attentions each");
  show("self-attention, layer 1 (averaged over heads)", recorder.traces[0].average_weights());
  show("cross-attention, layer 1", recorder.traces[1].average_weights());
  claim(recorder.traces[1].average_weights().shape() == Shape({1, targets, sources}),
        "cross-attention is targets × sources");
  return failures();
}
