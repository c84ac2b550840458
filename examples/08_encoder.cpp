// An encoder: layers of self-attention and a feed-forward network, each with a residual connection and a norm.
#include <attend/nn/embedding.h>
#include <attend/nn/transformer.h>
#include <attend/ops/arithmetic.h>
#include <attend/ops/position.h>
#include <attend/ops/shape.h>
#include <attend/tensor/creation.h>

#include "show.h"

using namespace attend;
using namespace example;

int main() {
  Rng rng{.seed = 3};
  const int64_t words = 20, dim = 16, length = 6;
  const auto embedding = Embedding::create({.rows = words, .dim = dim}, rng);
  const auto encoder = TransformerEncoder::create(
      {.layer = {.dim = dim, .heads = 4, .ffn_dim = 32, .norm_first = true, .dropout = 0.1}, .layers = 2}, rng);
  std::printf("encoder: %lld parameters\n", static_cast<long long>(count_parameters(encoder)));

  // Two sentences as word ids. The second has 4 words and two positions of padding (id 0).
  const auto encode = [&](const std::vector<int64_t>& ids, const ForwardPass& pass = {}) {
    const Tensor x = embedding.forward(tensor(ids, {2, length})) + sinusoidal_positions(length, dim);
    return encoder.forward(x, {.lengths = tensor<int64_t>({6, 4}, {2})}, pass);
  };
  const Tensor y = encode({3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 0, 0});
  show("the first word of both sentences, encoded", select(y, 1, 0));
  claim(y.shape() == Shape({2, length, dim}), "one vector per word, which depends on its context");

  // Word 1 occurs twice in the first sentence. Its encoding depends on the context, so it differs each time.
  const Tensor first = select(y, 0, 0);
  claim(difference(select(first, 0, 1), select(first, 0, 3)) > 0.01, "the same word, two encodings");

  // Padding is masked: other ids in its positions do not change the encoding of the real words.
  const Tensor padded = encode({3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 17, 18});
  claim(difference(slice(select(y, 0, 1), 0, 0, 4), slice(select(padded, 0, 1), 0, 0, 4)) == 0, "padding is not seen");

  // An encoder is bidirectional: changing the last word changes the encoding of the first.
  const Tensor changed = encode({3, 1, 4, 1, 5, 7, 2, 6, 5, 3, 0, 0});
  claim(difference(select(first, 0, 0), select(select(changed, 0, 0), 0, 0)) > 1e-4, "later words reach earlier ones");

  // Dropout is active only if the forward pass is given a random generator, that is, during training.
  const Tensor training = encode({3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 0, 0}, {.rng = &rng});
  claim(difference(y, training) > 0.01, "training drops, inference does not");
  return failures();
}
