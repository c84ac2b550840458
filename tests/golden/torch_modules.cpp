#include "torch_modules.h"

#include "attend/ops/arithmetic.h"
#include "attend/ops/shape.h"

namespace attend::golden {
namespace {

/// One third of the rows of the packed [query; key; value].
Tensor third(const Tensor& packed, int64_t index) {
  if (!packed) return {};
  const int64_t rows = packed.dim(0) / 3;
  return slice(packed, 0, index * rows, (index + 1) * rows);
}

Tensor as_vector(const Tensor& x) { return x ? reshape(x, {x.numel()}) : x; }

bool says_attend(Case& c, const std::string& name) {
  const std::string meaning = c.options().text(name + "_true_means", "ignore");
  require<FormatError>(meaning == "ignore" || meaning == "attend", "options: ", name, "_true_means is '", meaning, "'");
  return meaning == "attend";
}

void add_bias(Tensor& bias, const Tensor& term) { bias = bias ? bias + term : term; }

}  // namespace

Linear torch_linear(Case& c, const std::string& name) {
  return {c.parameter(name + ".weight"), c.parameter_or_empty(name + ".bias")};
}

LayerNorm torch_layer_norm(Case& c, const std::string& name, double eps) {
  return {eps, c.parameter_or_empty(name + ".weight"), c.parameter_or_empty(name + ".bias")};
}

MultiheadAttention torch_attention(Case& c, const std::string& prefix, MultiheadAttentionConfig config) {
  const bool packed = c.has_parameter(prefix + "in_proj_weight");
  const Tensor weights = c.parameter_or_empty(prefix + "in_proj_weight");
  const Tensor q = packed ? third(weights, 0) : c.parameter(prefix + "q_proj_weight");
  const Tensor k = packed ? third(weights, 1) : c.parameter(prefix + "k_proj_weight");
  const Tensor v = packed ? third(weights, 2) : c.parameter(prefix + "v_proj_weight");
  const Tensor biases = c.parameter_or_empty(prefix + "in_proj_bias");
  config.dim = q.dim(1);
  config.key_dim = k.dim(1);
  config.value_dim = v.dim(1);
  config.bias = static_cast<bool>(biases);
  config.bias_kv = c.has_parameter(prefix + "bias_k");
  Rng rng;
  MultiheadAttention result = MultiheadAttention::create(config, rng);
  result.query = {q, third(biases, 0)};
  result.key = {k, third(biases, 1)};
  result.value = {v, third(biases, 2)};
  result.output = torch_linear(c, prefix + "out_proj");
  result.bias_key = as_vector(c.parameter_or_empty(prefix + "bias_k"));
  result.bias_value = as_vector(c.parameter_or_empty(prefix + "bias_v"));
  return result;
}

Activation torch_activation(const std::string& name) {
  if (name == "relu") return Activation::relu;
  if (name == "gelu") return Activation::gelu;
  if (name == "gelu_tanh") return Activation::gelu_tanh;
  if (name == "silu" || name == "swish") return Activation::silu;
  if (name == "tanh") return Activation::tanh;
  if (name == "sigmoid") return Activation::sigmoid;
  throw FormatError("options: unknown activation '" + name + "'");
}

MaskOptions torch_masks(Case& c, const MaskNames& names) {
  MaskOptions result;
  const bool mask_attends = says_attend(c, names.mask), keys_attend = says_attend(c, names.keys);
  if (Tensor mask = c.input_or_empty(names.mask)) {
    if (mask.rank() == 3) mask = reshape(mask, {mask.dim(0) / names.heads, names.heads, mask.dim(1), mask.dim(2)});
    if (is_floating(mask.dtype()))
      add_bias(result.bias, mask);
    else
      result.mask = mask_attends ? mask : logical_not(mask);
  }
  if (const Tensor keys = c.input_or_empty(names.keys)) {
    if (is_floating(keys.dtype()))
      add_bias(result.bias, unsqueeze(unsqueeze(keys, 1), 1));
    else
      result.keys = keys_attend ? keys : logical_not(keys);
  }
  return result;
}

}  // namespace attend::golden
