// A decoder: masked self-attention over what is written so far, cross-attention to the source, feed-forward.
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
  claim(y.shape() == Shape({1, targets, dim}), "a vector for each place, from which the next word is guessed");

  // Causal: the last word is not known to the places before it. So all places can be trained at once.
  const Tensor other = concat({slice(written, 1, 0, 3), normal({1, 1, dim}, 0, 1, rng.stream())}, 1);
  const Tensor changed = decoder.forward(other, memory);
  claim(difference(slice(y, 1, 0, 3), slice(changed, 1, 0, 3)) == 0, "earlier places do not see the last word");
  claim(difference(slice(y, 1, 3, 4), slice(changed, 1, 3, 4)) > 0.01, "its own place does");

  // For the same reason the beginning alone gives the same vectors: text can be written word by word.
  const Tensor beginning = decoder.forward(slice(written, 1, 0, 2), memory);
  claim(difference(slice(y, 1, 0, 2), beginning) < 1e-5, "a prefix is decoded as it is within the whole");

  // Every place sees the whole source.
  const Tensor elsewhere = decoder.forward(written, normal({1, sources, dim}, 0, 1, rng.stream()));
  claim(difference(select(y, 1, 0), select(elsewhere, 1, 0)) > 0.01, "another source, another text");

  // Each layer attends twice, and both can be looked at: here the first layer's self- and cross-attention.
  AttentionRecorder recorder;
  decoder.forward(written, memory, {}, {.observer = &recorder});
  claim(recorder.traces.size() == 4, "two layers, two attentions each");
  show("self-attention, layer 1 (averaged over heads)", recorder.traces[0].average_weights());
  show("cross-attention, layer 1", recorder.traces[1].average_weights());
  claim(recorder.traces[1].average_weights().shape() == Shape({1, targets, sources}),
        "cross-attention is targets × sources");
  return failures();
}
