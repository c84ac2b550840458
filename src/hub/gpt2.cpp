#include "hub/describe.h"
#include "hub/language.h"
#include "hub/tied_output.h"

namespace attend::hub {
namespace {

std::unique_ptr<Model> create(const HubFolder& folder) {
  const HubConfig& c = folder.config;
  GptConfig config{.vocab_size = c.size("vocab_size", kMostVocab, 50257),
                   .context = c.size("n_positions", kMostContext, c.size("n_ctx", kMostContext, 1024)),
                   .dim = c.size("n_embd", kMostWidth, 768),
                   .heads = c.size("n_head", kMostWidth, 12),
                   .layers = c.size("n_layer", kMostLayers, 12),
                   .ffn_dim = c.size("n_inner", kMostWidth, 0),
                   .activation = c.activation("activation_function", "gelu_new"),
                   .dropout = c.number("resid_pdrop", 0.1, 0, kMostDropout),
                   .tied = is_output_tied(folder, {"lm_head.weight", "transformer.", "wte.weight"}, true),
                   .output_bias = folder.weights.contains("lm_head.bias"),
                   .eps = c.number("layer_norm_epsilon", 1e-5, 0, 1),
                   .attention_scale = c.flag("scale_attn_weights", true) ? 0.0 : 1.0,
                   .scale_by_layer = c.flag("scale_attn_by_inverse_layer_idx", false)};
  expect_other_names(c, {{"hidden_size", config.dim},
                         {"max_position_embeddings", config.context},
                         {"num_attention_heads", config.heads},
                         {"num_hidden_layers", config.layers}});
  c.ignore({"embd_pdrop", "attn_pdrop", "summary_first_dropout"});  // training alone
  c.ignore({"n_special", "predict_special_tokens"});                // of the first GPT, which GPT-2 never reads
  c.ignore({"reorder_and_upcast_attn"});                            // for f16; everything here is f32
  c.ignore({"summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels"});  // other heads
  return create_language_model(folder, config);
}

/// GPT-2's projections are "Conv1D" layers, with weights [in, out].
NameMap names(const HubFolder&, const Model& model) {
  NameMap map{.prefix = "transformer."};
  map.add("wte.weight", "embedding.weight");
  map.add("wpe.weight", "positions.weight");
  map.add_both("h.{}.ln_1", "stack.layers.{}.attention_norm");
  map.add_joined(
      "h.{}.attn.c_attn",
      {"stack.layers.{}.attention.query", "stack.layers.{}.attention.key", "stack.layers.{}.attention.value"},
      Layout::transposed);
  map.add_both("h.{}.attn.c_proj", "stack.layers.{}.attention.output", Layout::transposed);
  map.add_both("h.{}.ln_2", "stack.layers.{}.feed_forward_norm");
  map.add_both("h.{}.mlp.c_fc", "stack.layers.{}.feed_forward.up", Layout::transposed);
  map.add_both("h.{}.mlp.c_proj", "stack.layers.{}.feed_forward.down", Layout::transposed);
  map.add_both("ln_f", "stack.norm");
  map.rules.push_back({.theirs = "lm_head.weight", .ours = {"output.weight"}, .is_bare = true});
  map.rules.push_back({.theirs = "lm_head.bias", .ours = {"output_bias"}, .is_bare = true});
  map.ignored = {"h.*.attn.bias", "h.*.attn.masked_bias"};  // masks, which attend computes
  map.other_heads = {"multiple_choice_head.*"};
  if (dynamic_cast<const Gpt&>(model).settings.tied) map.ignored.push_back("lm_head.weight");
  return map;
}

Json describe(const Model& model) {
  const GptConfig& c = model_of<Gpt>(model, "gpt2").settings;
  Refusals refusals("gpt2");
  refusals.expect("positions", c.positions, Positions::learned);
  refusals.expect("rms_norm", c.rms_norm, false);
  refusals.expect("gated", c.gated, false);
  refusals.expect("bias", c.bias, true);
  refusals.refuse_unless(c.attention_bias == AttentionBias::as_others || c.attention_bias == AttentionBias::all,
                         "attention_bias", setting_text(c.attention_bias), "all");
  refusals.refuse_unless(c.key_heads == 0 || c.key_heads == c.heads, "key_heads", setting_text(c.key_heads), "0");
  refusals.refuse_unless(c.head_dim == 0 || c.head_dim * c.heads == c.dim, "head_dim", setting_text(c.head_dim), "0");
  refusals.expect("output_bias", c.output_bias, false);
  refusals.expect("qk_norm", c.qk_norm, false);
  refusals.expect("window", c.window, int64_t{0});
  refusals.refuse_unless(c.attention_scale == 0 || c.attention_scale == 1, "attention_scale",
                         setting_text(c.attention_scale), "0");
  refusals.check();
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"vocab_size", c.vocab_size},
          {"n_positions", c.context},
          {"n_embd", c.dim},
          {"n_layer", c.layers},
          {"n_head", c.heads},
          {"n_inner", c.ffn_dim > 0 ? c.ffn_dim : 4 * c.dim},
          {"activation_function", activation_name(c.activation)},
          {"resid_pdrop", c.dropout},
          {"embd_pdrop", c.dropout},
          {"attn_pdrop", c.dropout},
          {"layer_norm_epsilon", c.eps},
          {"scale_attn_weights", c.attention_scale == 0},
          {"scale_attn_by_inverse_layer_idx", c.scale_by_layer},
          {"tie_word_embeddings", c.tied}};
}

}  // namespace

HubArchitecture gpt2() { return {.model_type = "gpt2", .create = create, .names = names, .describe = describe}; }

}  // namespace attend::hub
