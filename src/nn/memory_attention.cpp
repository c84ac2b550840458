#include "attend/nn/memory_attention.h"

#include "attend/ops/activation.h"
#include "attend/ops/arithmetic.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"
#include "nn/observed_attention.h"

namespace attend {
namespace {

/// Checks the inputs and returns the state as [batch, states, width].
Tensor checked_states(const MemoryInputs& inputs, const char* name) {
  const Tensor &state = inputs.state, &memory = inputs.memory;
  require<ShapeError>(state.rank() == 2 || state.rank() == 3, name,
                      ": expected a state of shape [batch, width] or [batch, states, width], got ", state.shape());
  require<ShapeError>(memory.rank() == 3 && memory.dim(0) == state.dim(0), name, ": expected a memory of shape [",
                      state.dim(0), ", length, width], got ", memory.shape());
  require<ShapeError>(!inputs.mask || inputs.mask.shape() == Shape{memory.dim(0), memory.dim(1)}, name,
                      ": expected a mask of shape [", memory.dim(0), ", ", memory.dim(1), "], got ",
                      inputs.mask.shape());
  return state.rank() == 2 ? unsqueeze(state, 1) : state;
}

/// Attention to the memory with one head. q is [batch, states, width] and k is [batch, length, width].
TracedAttention attend_memory(const Tensor& q, const Tensor& k, const MemoryInputs& inputs, AttentionOptions options,
                              const ForwardPass& pass) {
  if (inputs.mask) options.mask = unsqueeze(unsqueeze(inputs.mask, 1), 1);
  const Tensor q4 = unsqueeze(q, 1), k4 = unsqueeze(k, 1);
  TracedAttention result = observed_attention(q4, k4, unsqueeze(inputs.memory, 1), options, pass);
  const Tensor output = select(result.output, 1, 0);  // [batch, states, memory]
  result.output = inputs.state.rank() == 2 ? select(output, 1, 0) : output;
  return result;
}

}  // namespace

BahdanauAttention BahdanauAttention::create(const BahdanauAttentionConfig& config, Rng& rng) {
  BahdanauAttention result;
  result.query = Linear::create({.in = config.state, .out = config.state_dim, .bias = false}, rng);
  result.key = Linear::create({.in = config.memory, .out = config.state_dim, .bias = false}, rng);
  result.score = Linear::create({.in = config.state_dim, .out = 1, .bias = false}, rng);
  return result;
}

// With q = k = 0 the attention op computes softmax(bias, masked) · v. The additive scores are passed as the bias.
TracedAttention BahdanauAttention::forward(const MemoryInputs& inputs, const ForwardPass& pass,
                                           const Tensor& projected) const {
  const Tensor states = query.forward(checked_states(inputs, "BahdanauAttention"));  // [batch, states, state_dim]
  const Tensor keys = projected ? projected : project(inputs.memory);                // [batch, length, state_dim]
  const Tensor mixed = tanh(unsqueeze(states, 2) + unsqueeze(keys, 1));  // [batch, states, length, state_dim]
  const Tensor scores = select(score.forward(mixed), 3, 0);              // [batch, states, length]
  if (pass.observer) {
    pass.show("query", states);
    pass.show("key", keys);
    pass.show("score", score.weight);
  }
  const TensorOptions kind{states.dtype(), states.device()};
  return attend_memory(zeros({states.dim(0), states.dim(1), 1}, kind), zeros({keys.dim(0), keys.dim(1), 1}, kind),
                       inputs, {.bias = unsqueeze(scores, 1)}, pass);
}

LuongAttention LuongAttention::create(const LuongAttentionConfig& config, Rng& rng) {
  LuongAttention result;
  result.score = config.score;
  if (config.score == LuongScore::general) {
    result.projection = Linear::create({.in = config.state, .out = config.memory, .bias = false}, rng);
  } else {
    require<ShapeError>(config.state == config.memory,
                        "LuongAttention: dot scores need equal widths of state and memory, got ", config.state, " and ",
                        config.memory);
  }
  return result;
}

TracedAttention LuongAttention::forward(const MemoryInputs& inputs, const ForwardPass& pass) const {
  const Tensor states = checked_states(inputs, "LuongAttention");
  return attend_memory(projection ? projection->forward(states) : states, inputs.memory, inputs, {.scale = 1.0}, pass);
}

}  // namespace attend
