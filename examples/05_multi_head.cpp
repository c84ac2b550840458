// Multi-head attention: several attentions in parallel, each head on its own part of the features.
#include <attend/nn/multihead_attention.h>
#include <attend/ops/shape.h>
#include <attend/tensor/creation.h>

#include "show.h"

using namespace attend;
using namespace example;

int main() {
  Rng rng{.seed = 5};
  const int64_t length = 4, dim = 8, heads = 2;
  const Tensor x = normal({1, length, dim}, 0, 1, rng.stream());  // [batch, length, dim]

  // One module: projections to queries, keys and values, the heads, and an output projection that mixes the heads.
  const auto layer = MultiheadAttention::create({.dim = dim, .heads = heads}, rng);
  const MaskOptions causal{.causal = true};
  const TracedAttention result = layer.forward_traced({x, x, x}, causal);
  std::printf("%lld parameters\n", static_cast<long long>(count_parameters(layer)));
  claim(count_parameters(layer) == 4 * (dim * dim + dim), "four matrices with biases");

  // The weights of a head can be read afterwards. Only the requested weights are computed.
  for (int64_t head = 0; head < heads; ++head) {
    std::printf("head %lld: ", static_cast<long long>(head));
    show("attention weights", result.trace.weights({.heads = {head}}).values);
  }

  // The same by hand: features 0–3 are head 0, features 4–7 head 1.
  const Tensor q = layer.query.forward(x), k = layer.key.forward(x), v = layer.value.forward(x);
  std::vector<Tensor> contexts;
  for (int64_t head = 0; head < heads; ++head) {
    const auto part = [&](const Tensor& t) { return unsqueeze(slice(t, 2, head * 4, head * 4 + 4), 1); };
    contexts.push_back(select(attention(part(q), part(k), part(v), {.causal = true}), 1, 0));  // [1, length, 4]
  }
  const Tensor by_hand = layer.output.forward(concat(contexts, 2));
  claim(difference(result.output, by_hand) < 1e-5, "heads are slices of the features, joined and projected");
  return failures();
}
