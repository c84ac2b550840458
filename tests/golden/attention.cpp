#include "attend/ops/attention.h"

#include "attend/nn/memory_attention.h"
#include "attend/nn/self_attention_block.h"
#include "attend/ops/position.h"
#include "attend/ops/reduce.h"
#include "attend/ops/shape.h"
#include "registry.h"
#include "torch_modules.h"

namespace attend::golden {
namespace {

Alignment alignment(Case& c) {
  const std::string name = c.options().text("causal_align", "top_left");
  require<FormatError>(name == "top_left" || name == "bottom_right", "options: unknown causal_align '", name, "'");
  return name == "bottom_right" ? Alignment::bottom_right : Alignment::top_left;
}

void require_no_dropout(Case& c) {
  require<FormatError>(c.options().number("dropout", 0) == 0, "options: dropout cannot be compared with a reference");
}

AttentionOptions attention_options(Case& c, int64_t heads) {
  AttentionOptions options;
  options.causal = c.options().flag("causal");
  options.alignment = alignment(c);
  options.window = c.options().integer("window", 0);
  options.softcap = c.options().number("softcap", 0);
  if (c.options().has("scale")) options.scale = c.options().number("scale", 1);
  options.mask = c.input_or_empty("mask");
  options.bias = c.input_or_empty("bias");
  options.lengths = c.input_or_empty("lengths");
  options.alibi = c.input_or_empty("alibi_slopes");
  if (c.options().flag("alibi", static_cast<bool>(options.alibi)) && !options.alibi)
    options.alibi = alibi_slopes(heads);
  options.q_offsets = c.input_or_empty("q_offsets");
  options.k_offsets = c.input_or_empty("k_offsets");
  require_no_dropout(c);
  return options;
}

void check_attention(Case& c) {
  const Tensor q = c.input("q"), k = c.input("k"), v = c.input("v");
  const AttentionOptions options = attention_options(c, q.dim(1));
  const AttentionResult result = attention_with_lse(q, k, v, options);
  c.output("y", result.output);
  if (c.has_output("weights")) c.output("weights", attention_weights(q, k, result.lse, options).values);
  if (c.has_output("lse")) c.output("lse", result.lse.detach());
}

void check_multihead_attention(Case& c) {
  const int64_t heads = c.options().integer("num_heads", 1);
  require_no_dropout(c);
  const bool bias = c.options().flag("bias", c.has_parameter("in_proj_bias"));
  const bool bias_kv = c.options().flag("add_bias_kv", c.has_parameter("bias_k"));
  const bool self = c.options().flag("self", !c.has_input("key"));
  const MultiheadAttention module =
      torch_attention(c, "", {.heads = heads, .zero_key = c.options().flag("add_zero_attn")});
  c.options().require_integer("embed_dim", module.config.dim);
  c.options().require_integer("kdim", module.config.key_dim);
  c.options().require_integer("vdim", module.config.value_dim);
  require<FormatError>(bias == module.config.bias && bias_kv == module.config.bias_kv && self == !c.has_input("key"),
                       "options: bias, add_bias_kv or self does not agree with the tensors");

  const Tensor query = c.input("query");
  const Tensor key = c.has_input("key") ? c.input("key") : query;
  const Tensor value = c.has_input("value") ? c.input("value") : key;
  MaskOptions masks = torch_masks(c, {.mask = "attn_mask", .keys = "key_padding_mask", .heads = heads});
  masks.causal = c.options().flag("causal");
  const TracedAttention result = module.forward_traced({query, key, value}, masks);
  c.output("y", result.output);
  const bool average = c.options().flag("average_weights");
  if (c.has_output("weights"))
    c.output("weights", average ? result.trace.average_weights() : result.trace.weights().values);
}

void check_self_attention_block(Case& c) {
  const int64_t heads = c.options().integer("num_heads", 1);
  SelfAttentionBlock module;
  module.attention = torch_attention(c, "attention.", {.heads = heads});
  module.layer_norm = torch_layer_norm(c, "layer_norm", c.options().number("eps", 1e-5));
  module.linear = torch_linear(c, "linear");
  c.options().require_integer("embed_dim", module.attention.config.dim);
  require_no_dropout(c);
  MaskOptions masks = torch_masks(c, {.mask = "attn_mask", .keys = "key_padding_mask", .heads = heads});
  masks.causal = c.options().flag("causal");
  c.output("y", module.forward(c.input("x"), masks));
}

void check_bahdanau_attention(Case& c) {
  const BahdanauAttention module{torch_linear(c, "W"), torch_linear(c, "U"), torch_linear(c, "v")};
  const std::string meaning = c.options().text("mask_true_means", "attend");
  require<FormatError>(meaning == "attend", "options: mask_true_means is '", meaning, "'");
  const TracedAttention result = module.forward({c.input("state"), c.input("memory"), c.input_or_empty("mask")});
  c.output("context", result.output);
  if (!c.has_output("weights")) return;
  const Tensor weights = select(result.trace.weights().values, 1, 0);  // [batch, states, length]
  c.output("weights", result.output.rank() == 2 ? select(weights, 1, 0) : weights);
}

}  // namespace

void add_attention(Registry& registry) {
  registry["attention"] = check_attention;
  registry["multihead_attention"] = check_multihead_attention;
  registry["self_attention_block"] = check_self_attention_block;
  registry["bahdanau_attention"] = check_bahdanau_attention;
}

}  // namespace attend::golden
