#include "attend/nn/multihead_attention.h"

#include <array>
#include <cmath>
#include <map>
#include <mutex>

#include "attend/autograd/autograd.h"
#include "attend/nn/init.h"
#include "attend/ops/cast.h"
#include "attend/ops/linear.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"
#include "nn/alibi.h"
#include "nn/heads.h"
#include "nn/observed_attention.h"

namespace attend {
namespace {

/// Replaces zeros in the config by their defaults, and checks the config.
MultiheadAttentionConfig resolved(MultiheadAttentionConfig config) {
  require<ShapeError>(config.dim >= 1 && config.heads >= 1,
                      "MultiheadAttention: dim and heads must be at least 1, got ", config.dim, " and ", config.heads);
  if (config.head_dim == 0) {
    require<ShapeError>(config.dim % config.heads == 0, "MultiheadAttention: dim ", config.dim,
                        " is not divisible by heads ", config.heads);
    config.head_dim = config.dim / config.heads;
  }
  if (config.key_heads == 0) config.key_heads = config.heads;
  if (config.key_dim == 0) config.key_dim = config.dim;
  if (config.value_dim == 0) config.value_dim = config.dim;
  require<ShapeError>(config.key_heads >= 1 && config.heads % config.key_heads == 0, "MultiheadAttention: heads ",
                      config.heads, " is not divisible by key_heads ", config.key_heads);
  require<ShapeError>(config.key_dim >= 1 && config.value_dim >= 1 && config.head_dim >= 1,
                      "MultiheadAttention: key_dim, value_dim and head_dim must not be negative, got ", config.key_dim,
                      ", ", config.value_dim, " and ", config.head_dim);
  require<ShapeError>(!config.alibi || !(config.bias_kv || config.zero_key),
                      "MultiheadAttention: alibi cannot be combined with the extra keys of bias_kv and zero_key");
  return config;
}

/// A projection with Xavier initialisation and a bias of 0.
Linear projection(const LinearConfig& config, int64_t parts, Rng& rng) {
  Linear result;
  result.weight = xavier_parameter({config.out, config.in}, rng, parts);
  if (config.bias) result.bias = constant_parameter({config.out}, 0);
  return result;
}

/// Appends `row` [heads · dim] to x [batch, heads, length, dim] as one more position of every sequence.
Tensor append_row(const Tensor& x, const Tensor& row) {
  const Tensor heads = reshape(cast(row, x.dtype()), {1, x.dim(1), 1, x.dim(3)});
  return concat({x, expand(heads, {x.dim(0), x.dim(1), 1, x.dim(3)})}, 2);
}

/// [batch, keys] as [batch, 1, 1, keys].
Tensor over_rows(const Tensor& keys) { return unsqueeze(unsqueeze(keys, 1), 1); }

/// The mask of `count` keys, followed by `extra` keys that every query sees.
Tensor extended(const Tensor& mask, int64_t count, int64_t extra) {
  Shape all = mask.shape();
  all[mask.rank() - 1] = count;
  Shape more = mask.shape();
  more[mask.rank() - 1] = extra;
  return concat({expand(mask, all), to(ones(more, {DType::boolean}), mask.device())}, -1);
}

struct KeyCounts {
  int64_t queries = 0, real = 0, extra = 0;
};

/// Converts the masks of a call to options of the attention op. Without extra keys, the op's options with linear memory
/// are used. With extra keys, all masks are combined into one tensor, because the op counts extra keys as positions.
AttentionOptions attention_options(const MultiheadAttentionConfig& config, const MaskOptions& masks,
                                   const KeyCounts& counts) {
  AttentionOptions options;
  options.bias = masks.bias;
  options.softcap = config.softcap;
  options.scale = config.scale;
  options.mask = masks.keys ? logical_and(over_rows(masks.keys), masks.mask) : masks.mask;
  if (counts.extra == 0) {
    options.causal = masks.causal;
    options.alignment = masks.alignment;
    options.window = config.window;
    options.lengths = masks.lengths;
    options.q_offsets = options.k_offsets = masks.offsets;
    return options;
  }
  require<ShapeError>(!masks.offsets, "MultiheadAttention: packed sequences cannot be combined with extra keys");
  if (masks.lengths) options.mask = logical_and(over_rows(length_mask(masks.lengths, counts.real)), options.mask);
  if (masks.causal || config.window > 0) {
    const Tensor seen = position_mask({.queries = counts.queries,
                                       .keys = counts.real,
                                       .causal = masks.causal,
                                       .alignment = masks.alignment,
                                       .window = config.window});
    options.mask = logical_and(options.mask ? to(seen, options.mask.device()) : seen, options.mask);
  }
  if (options.mask) options.mask = extended(options.mask, counts.real, counts.extra);
  if (options.bias) {
    const Shape all = options.bias.shape().with_last(counts.real), more = all.with_last(counts.extra);
    options.bias = concat({expand(options.bias, all), zeros(more, {options.bias.dtype(), options.bias.device()})}, -1);
  }
  return options;
}

void check_inputs(const MultiheadAttentionConfig& config, const MultiheadAttention::Inputs& inputs) {
  const auto check = [](const Tensor& x, const char* name, int64_t width) {
    require<ShapeError>(x.rank() == 3 && x.dim(2) == width, "MultiheadAttention: expected ", name,
                        " of shape [batch, length, ", width, "], got ", x.shape());
  };
  check(inputs.query, "query", config.dim);
  check(inputs.key, "key", config.key_dim);
  check(inputs.value, "value", config.value_dim);
  require<ShapeError>(inputs.key.dim(0) == inputs.query.dim(0) && inputs.value.dim(0) == inputs.query.dim(0),
                      "MultiheadAttention: query, key and value must have the same batch size, got ",
                      inputs.query.dim(0), ", ", inputs.key.dim(0), " and ", inputs.value.dim(0));
  require<ShapeError>(inputs.key.dim(1) == inputs.value.dim(1), "MultiheadAttention: got ", inputs.key.dim(1),
                      " keys but ", inputs.value.dim(1), " values");
}

struct Heads {
  Tensor q, k, v;     // [batch, heads, length, head_dim]
  Tensor residual{};  // added to the output; may be empty
};

/// Runs the attention op on the projected heads, joins the heads and applies the output projection.
TracedAttention attend_heads(const MultiheadAttention& module, const Heads& heads, AttentionOptions options,
                             const ForwardPass& pass) {
  const auto& [q, k, v, residual] = heads;
  const MultiheadAttentionConfig& config = module.config;
  if (config.alibi) options.alibi = slopes_of(config.heads, q);
  if (options.bias) options.bias = cast(options.bias, q.dtype());
  if (pass.rng && config.dropout > 0) options.dropout = config.dropout, options.random = pass.rng->stream();
  TracedAttention result = observed_attention(q, k, v, options, pass);
  const Tensor joined = pass.show("attended", join_heads(result.output));
  result.output = pass.show("projected", module.output.forward(joined, residual));
  return result;
}

/// Applies RoPE to a step's new tokens. If rows have different lengths, each row has one new token; the row axis is
/// then used as the position axis.
Tensor turn(const Tensor& x, RopeOptions options, const CacheStep& step) {
  if (step.is_even()) {
    options.offset = step.held[0];
    return rope(x, options);
  }
  options.positions = reshape(step.positions(), {-1});
  return transpose(rope(transpose(x, 0, 2), options), 0, 2);
}

/// The masks of a step. With one new token per row, the causal mask is equal to the row's length.
MaskOptions cached_masks(const MultiheadAttentionConfig& config, const CacheStep& step) {
  if (step.is_even()) return {.causal = true, .alignment = Alignment::bottom_right};
  if (config.window == 0) return {.alignment = Alignment::bottom_right, .lengths = step.lengths()};
  std::vector<uint8_t> seen;
  for (const int64_t held : step.held) {
    for (int64_t j = 0; j < step.longest(); ++j) seen.push_back(j <= held && j > held - config.window);
  }
  return {.alignment = Alignment::bottom_right,
          .keys = bool_tensor(seen, {static_cast<int64_t>(step.held.size()), step.longest()}),
          .lengths = step.lengths()};
}

}  // namespace

Tensor slopes_of(int64_t heads, const Tensor& q) {
  static std::mutex mutex;
  static std::map<std::pair<int64_t, DType>, Tensor> known;
  const std::lock_guard lock(mutex);
  Tensor& slopes = known[{heads, q.dtype()}];
  if (!slopes) slopes = alibi_slopes(heads, q.dtype());
  return on_device(slopes, q.device());
}

MultiheadAttention MultiheadAttention::create(const MultiheadAttentionConfig& config, Rng& rng) {
  MultiheadAttention result;
  result.config = resolved(config);
  const MultiheadAttentionConfig& c = result.config;
  const int64_t inner = c.heads * c.head_dim, key_inner = c.key_heads * c.head_dim;
  const int64_t parts = c.key_dim == c.dim && c.value_dim == c.dim && key_inner == inner ? 3 : 1;
  result.query = projection({.in = c.dim, .out = inner, .bias = c.bias}, parts, rng);
  result.key = projection({.in = c.key_dim, .out = key_inner, .bias = c.bias}, parts, rng);
  result.value = projection({.in = c.value_dim, .out = key_inner, .bias = c.bias}, parts, rng);
  result.output = Linear::create({.in = inner, .out = c.dim, .bias = false}, rng);
  if (c.output_bias.value_or(c.bias)) result.output.bias = constant_parameter({c.dim}, 0);
  if (c.qk_norm) {
    result.query_norm = RMSNorm::create({.dim = c.head_dim, .eps = c.qk_norm_eps});
    result.key_norm = RMSNorm::create({.dim = c.head_dim, .eps = c.qk_norm_eps});
  }
  if (c.bias_kv) {
    const double deviation = 1 / std::sqrt(static_cast<double>(key_inner));
    result.bias_key = normal_parameter({key_inner}, deviation, rng);
    result.bias_value = normal_parameter({key_inner}, deviation, rng);
  }
  return result;
}

TracedAttention MultiheadAttention::forward_traced(const Inputs& inputs, const MaskOptions& masks,
                                                   const ForwardPass& pass) const {
  check_inputs(config, inputs);
  const Tensor queries = query.forward(inputs.query), keys = key.forward(inputs.key);
  if (config.rope || query_norm) pass.show("queries", queries), pass.show("keys", keys);
  Tensor q = split_heads(queries, config.heads, query_norm);
  Tensor k = split_heads(keys, config.key_heads, key_norm);
  Tensor v = split_heads(value.forward(inputs.value), config.key_heads);
  const int64_t real = k.dim(2);
  if (config.rope) {  // before the extra keys are appended, because they have no position
    RopeOptions turning = *config.rope;
    if (masks.positions) turning.positions = masks.positions;
    q = rope(q, turning), k = rope(k, turning);
  }
  if (config.bias_kv) k = append_row(k, bias_key), v = append_row(v, bias_value);
  if (config.zero_key) {
    const Tensor zero = zeros({config.key_heads * config.head_dim}, {k.dtype(), k.device()});
    k = append_row(k, zero), v = append_row(v, zero);
  }

  AttentionOptions options =
      attention_options(config, masks, {.queries = q.dim(2), .real = real, .extra = k.dim(2) - real});
  return attend_heads(*this, {.q = q, .k = k, .v = v, .residual = inputs.residual}, options, pass);
}

Tensor MultiheadAttention::forward_cached(const Tensor& x, KeyValueCache& cache, const CacheStep& step,
                                          const ForwardPass& pass) const {
  require<ShapeError>(!config.bias_kv && !config.zero_key,
                      "MultiheadAttention: a cache cannot be combined with the extra keys of bias_kv and zero_key");
  const NoGrad scope;
  const std::array layers{query.weights(), key.weights(), value.weights()};
  const std::vector<Tensor> projected = linear_each(x, layers);
  Tensor q = split_heads(projected[0], config.heads, query_norm);
  Tensor k = split_heads(projected[1], config.key_heads, key_norm);
  const Tensor v = split_heads(projected[2], config.key_heads);
  if (config.rope) q = turn(q, *config.rope, step), k = turn(k, *config.rope, step);
  KeyValues all = cache.append({k, v}, step);
  if (all.keys.dtype() != q.dtype()) all = {to(all.keys, q.dtype()), to(all.values, q.dtype())};  // a bf16 cache
  AttentionOptions options =
      attention_options(config, cached_masks(config, step), {.queries = q.dim(2), .real = all.keys.dim(2), .extra = 0});
  if (!step.is_even()) options.window = 0;  // the mask includes the window
  options.bias = step.bias;
  return attend_heads(*this, {.q = q, .k = all.keys, .v = all.values}, options, pass).output;
}

KeyValues MultiheadAttention::project_memory(const Tensor& memory) const {
  return {split_heads(key.forward(memory), config.key_heads, key_norm),
          split_heads(value.forward(memory), config.key_heads)};
}

Tensor MultiheadAttention::forward_memory(const Tensor& x, const KeyValues& memory, const MaskOptions& masks,
                                          const ForwardPass& pass) const {
  require<ShapeError>(!config.bias_kv && !config.zero_key && !config.rope,
                      "MultiheadAttention: forward_memory cannot be combined with bias_kv, zero_key or rope");
  const Tensor q = split_heads(query.forward(x), config.heads, query_norm);
  const AttentionOptions options =
      attention_options(config, masks, {.queries = q.dim(2), .real = memory.keys.dim(2), .extra = 0});
  return attend_heads(*this, {.q = q, .k = memory.keys, .v = memory.values}, options, pass).output;
}

Tensor MultiheadAttention::forward(const Tensor& x, const MaskOptions& masks, const ForwardPass& pass) const {
  return forward_traced({x, x, x}, masks, pass).output;
}

Tensor MultiheadAttention::forward_cross(const Tensor& x, const Tensor& memory, const MaskOptions& masks,
                                         const ForwardPass& pass) const {
  return forward_traced({x, memory, memory}, masks, pass).output;
}

}  // namespace attend
