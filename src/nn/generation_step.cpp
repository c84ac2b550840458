#include "nn/generation_step.h"

#include <array>

#include "attend/autograd/autograd.h"
#include "attend/ops/arithmetic.h"
#include "attend/ops/shape.h"
#include "nn/alibi.h"
#include "ops/generation.h"
#include "ops/trusted_indices.h"

namespace attend {
namespace {

std::optional<NormWeights> weights_of(const Norm* norm) {
  if (norm == nullptr) return std::nullopt;
  return NormWeights{.weight = norm->weight, .bias = norm->bias, .eps = norm->eps, .rms = norm->rms};
}

std::optional<UnaryKind> kind_of(Activation activation) {
  switch (activation) {
    case Activation::relu:
      return UnaryKind::relu;
    case Activation::gelu:
      return UnaryKind::gelu;
    case Activation::gelu_tanh:
      return UnaryKind::gelu_tanh;
    case Activation::silu:
      return UnaryKind::silu;
    case Activation::tanh:
      return UnaryKind::tanh;
    case Activation::sigmoid:
      return UnaryKind::sigmoid;
    case Activation::quick_gelu:
      return std::nullopt;  // no single kernel
  }
  return std::nullopt;
}

Tensor one_step(const Tensor& x, const Norm* norm, const LinearStep& step) {
  return linear_steps(x, weights_of(norm), std::span(&step, 1))[0];
}

/// [rows, 1, heads · dim] as [rows, heads, dim], normed if there is a norm.
Tensor heads_of(const Tensor& x, int64_t heads, const std::optional<RMSNorm>& norm) {
  const Tensor apart = reshape(x, {x.dim(0), heads, -1});
  return norm ? norm->forward(apart) : apart;
}

/// RoPE of [rows, heads, dim], each row at its own position.
Tensor turned(const Tensor& x, RopeOptions options, const Tensor& positions) {
  options.positions = positions;
  return transpose(rope(transpose(x, 0, 1), options), 0, 1);
}

AttentionOptions options_of(const MultiheadAttentionConfig& config, const Tensor& q) {
  AttentionOptions options;
  options.softcap = config.softcap;
  options.scale = config.scale;
  options.alignment = Alignment::bottom_right;
  options.window = config.window;
  if (config.alibi) options.alibi = slopes_of(config.heads, q);
  return options;
}

}  // namespace

bool is_fused_step(const CacheStep& step, const ForwardPass& pass) {
  return step.numbers && pass.observer == nullptr && pass.rng == nullptr;
}

Tensor step_attention(const MultiheadAttention& attention, const Tensor& x, const Norm* norm, const Tensor& residual,
                      const StepTarget& target, const StepAttend& attend) {
  const NoGrad scope;
  const MultiheadAttentionConfig& config = attention.config;
  const bool is_direct = !config.rope && !attention.key_norm;
  const std::array<LinearStep, 3> steps{
      LinearStep{.layer = attention.query.weights()},
      LinearStep{.layer = attention.key.weights(),
                 .into = is_direct ? target.key_rows : Tensor{},
                 .places = is_direct ? target.places : Tensor{}},
      LinearStep{.layer = attention.value.weights(), .into = target.value_rows, .places = target.places}};
  const std::vector<Tensor> projected = linear_steps(x, weights_of(norm), steps);
  Tensor q = heads_of(projected[0], config.heads, attention.query_norm);
  if (config.rope) q = turned(q, *config.rope, target.positions);
  if (!is_direct) {
    Tensor k = heads_of(projected[1], config.key_heads, attention.key_norm);
    if (config.rope) k = turned(k, *config.rope, target.positions);
    put_rows(reshape(k, {x.dim(0), -1}), target.places, target.key_rows);
  }
  q = reshape(q, {x.dim(0), config.heads, 1, config.head_dim});
  return one_step(reshape(attend(q, options_of(config, q)), {x.dim(0), 1, -1}), nullptr,
                  {.layer = attention.output.weights(), .residual = residual});
}

Tensor step_attention(const MultiheadAttention& attention, const Tensor& x, const Norm* norm, const Tensor& residual,
                      KeyValueCache& cache, const CacheStep& step) {
  const KeyValues targets = cache.cache_rows();
  return step_attention(attention, x, norm, residual,
                        {.key_rows = targets.keys,
                         .value_rows = targets.values,
                         .places = step.device_places(),
                         .positions = step.device_positions()},
                        [&](const Tensor& q, AttentionOptions options) {
                          options.lengths = step.device_lengths();
                          // Reading the lengths back would wait for the device, and prevent a capture.
                          const TrustedIndices trusted;
                          const KeyValues all = cache.all();
                          return attend::attention(q, all.keys, all.values, options);
                        });
}

Tensor step_memory(const MultiheadAttention& attention, const Tensor& x, const Norm* norm, const Tensor& residual,
                   const StepAttend& attend) {
  const NoGrad scope;
  const MultiheadAttentionConfig& config = attention.config;
  const Tensor projected = one_step(x, norm, {.layer = attention.query.weights()});
  const Tensor split = heads_of(projected, config.heads, attention.query_norm);
  const Tensor q = reshape(split, {x.dim(0), config.heads, 1, config.head_dim});
  return one_step(reshape(attend(q, options_of(config, q)), {x.dim(0), 1, -1}), nullptr,
                  {.layer = attention.output.weights(), .residual = residual});
}

Tensor step_memory(const MultiheadAttention& attention, const Tensor& x, const Norm* norm, const Tensor& residual,
                   const KeyValues& memory, const MaskOptions& masks) {
  const NoGrad scope;
  const MultiheadAttentionConfig& config = attention.config;
  const int64_t sentences = memory.keys.dim(0);
  const Tensor projected = one_step(x, norm, {.layer = attention.query.weights()});
  const Tensor split = heads_of(projected, config.heads, attention.query_norm);
  const Tensor q = transpose(reshape(split, {sentences, -1, config.heads, config.head_dim}), 1, 2);
  AttentionOptions options = options_of(config, q);
  options.lengths = masks.lengths;
  const TrustedIndices trusted;
  const Tensor attended = transpose(attend::attention(q, memory.keys, memory.values, options), 1, 2);
  return one_step(reshape(attended, {x.dim(0), 1, -1}), nullptr,
                  {.layer = attention.output.weights(), .residual = residual});
}

Tensor step_feed_forward(const FeedForward& feed_forward, const Tensor& x, const Norm* norm, const Tensor& residual) {
  const NoGrad scope;
  const std::optional<UnaryKind> kind = kind_of(feed_forward.activation);
  const LinearStep up{.layer = feed_forward.up.weights(), .activation = feed_forward.gate ? std::nullopt : kind};
  const LinearStep down{.layer = feed_forward.down.weights(), .residual = residual};
  if (!feed_forward.gate && kind) return linear_chain(x, weights_of(norm), std::array{up, down});
  Tensor hidden;
  if (feed_forward.gate) {
    const std::array<LinearStep, 2> both{LinearStep{.layer = feed_forward.gate->weights(), .activation = kind}, up};
    const std::vector<Tensor> parts = linear_steps(x, weights_of(norm), both);
    hidden = multiply(kind ? parts[0] : activate(feed_forward.activation, parts[0]), parts[1]);
  } else {
    hidden = activate(feed_forward.activation, one_step(x, norm, up));
  }
  return one_step(hidden, nullptr, down);
}

Tensor step_logits(const Tensor& x, const Norm* norm, const LinearWeights& head, const Tensor& logits) {
  const NoGrad scope;
  return one_step(reshape(x, {x.dim(0), x.dim(-1)}), norm, {.layer = head, .into = logits});
}

}  // namespace attend
