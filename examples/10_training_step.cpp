// Training: predict the next word, compute the loss and the gradient of every parameter, take a small step, repeat.
#include <attend/nn/embedding.h>
#include <attend/nn/transformer.h>
#include <attend/ops/arithmetic.h>
#include <attend/ops/cross_entropy.h>
#include <attend/ops/position.h>
#include <attend/optim/adam.h>
#include <attend/optim/clip.h>
#include <attend/tensor/creation.h>

#include "show.h"

using namespace attend;
using namespace example;

// A language model is a plain struct. Saving, loading and the optimiser use the list in fields().
struct LanguageModel {
  Embedding embedding;
  TransformerEncoder blocks;
  Linear output;
  static void fields(auto&& visit) {
    visit("embedding", &LanguageModel::embedding);
    visit("blocks", &LanguageModel::blocks);
    visit("output", &LanguageModel::output);
  }
  Tensor forward(const Tensor& ids, const ForwardPass& pass = {}) const {
    const Tensor x = embedding.forward(ids);  // [batch, length, dim]
    return output.forward(blocks.forward(x + sinusoidal_positions(x.dim(1), x.dim(2)), {.causal = true}, pass));
  }
};

int main() {
  Rng rng{.seed = 0};
  const int64_t words = 8, dim = 16;
  const LanguageModel model{
      Embedding::create({.rows = words, .dim = dim}, rng),
      TransformerEncoder::create({.layer = {.dim = dim, .heads = 2, .ffn_dim = 32, .dropout = 0}, .layers = 1}, rng),
      Linear::create({.in = dim, .out = words}, rng)};
  // A tune of eight notes. The target at each position is the next note.
  const Tensor input = tensor<int64_t>({0, 2, 4, 2, 5, 4, 7, 0}, {1, 8});
  const Tensor target = tensor<int64_t>({2, 4, 2, 5, 4, 7, 0, 1}, {1, 8});

  Adam optimiser(named_parameters(model), {.lr = 0.01});
  double first = 0, last = 0;
  for (int step = 0; step < 100; ++step) {
    zero_grad(model);
    const Tensor loss = cross_entropy(model.forward(input, {.rng = &rng}), target);  // −log p of the right notes
    backward(loss);  // computes the gradient of every parameter
    clip_grad_norm(named_parameters(model), 1.0);
    optimiser.step();
    last = loss.item();
    if (step == 0) first = last;
    if (step % 20 == 0) std::printf("step %3d: loss %.4f\n", step, last);
  }
  claim(first > 1.5, "untrained, it guesses about one in eight: the loss is near ln 8 = 2.08");
  claim(last < 0.05, "after 100 steps it knows the tune");
  return failures();
}
