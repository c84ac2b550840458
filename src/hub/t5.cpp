#include <algorithm>

#include "hub/describe.h"
#include "hub/encoder_heads.h"
#include "hub/pair_names.h"
#include "hub/tied_output.h"
#include "io/printable.h"

// T5 (Raffel et al. 2020), version 1.1 with gates (Shazeer 2020), and mT5.
namespace attend::hub {
namespace {

constexpr int64_t kContext = 4096;  // relative positions have no limit, but memory grows with the number of pairs

/// "relu", "gated-gelu" …: whether the layer is gated, and its activation.
struct FeedForwardKind {
  bool is_gated = false;
  Activation activation = Activation::relu;
};
FeedForwardKind feed_forward_of(const HubConfig& c) {
  const std::string kind = c.text("feed_forward_proj", c.model_type() == "mt5" ? "gated-gelu" : "relu");
  FeedForwardKind result{.is_gated = kind.starts_with("gated-")};
  const std::string name = kind == "gated-gelu" ? "gelu_new" : result.is_gated ? kind.substr(6) : kind;
  const HubConfig only(Json{{"feed_forward_proj", name}}.dump(), c.file());
  result.activation = only.activation("feed_forward_proj", "relu");
  // transformers derives these two from it, and writes them beside it.
  c.expect("is_gated_act", result.is_gated);
  if (c.activation("dense_act_fn", name) != result.activation) {
    c.refuse("'dense_act_fn' " + in_quotes(c.text("dense_act_fn", "")) + " differs from 'feed_forward_proj' " +
             in_quotes(kind) + "; delete the wrong one");
  }
  return result;
}

std::unique_ptr<Model> create(const HubFolder& folder) {
  expect_architecture(folder, {"T5ForConditionalGeneration", "T5WithLMHeadModel", "T5Model",
                               "MT5ForConditionalGeneration", "MT5Model"});
  const HubConfig& c = folder.config;
  const FeedForwardKind feed_forward = feed_forward_of(c);
  const int64_t layers = c.size("num_layers", kMostLayers, 6);
  TransformerModelConfig config{.vocab_size = c.size("vocab_size", kMostVocab, 32128),
                                .dim = c.size("d_model", kMostWidth, 512),
                                .heads = c.size("num_heads", kMostWidth, 8),
                                .head_dim = c.size("d_kv", kMostWidth, 64),
                                .ffn_dim = c.size("d_ff", kMostWidth, 2048),
                                .encoder_layers = layers,
                                .decoder_layers = c.size("num_decoder_layers", kMostLayers, layers),
                                .activation = feed_forward.activation,
                                .gated = feed_forward.is_gated,
                                .norm_first = true,
                                .rms_norm = true,
                                .eps = c.number("layer_norm_epsilon", 1e-6, 0, kMostEps),
                                .bias = false,
                                .scale_scores = false,
                                .positions = Positions::relative,
                                .buckets = c.size("relative_attention_num_buckets", kMostWidth, 32),
                                .max_distance = c.size("relative_attention_max_distance", kMostContext, 128),
                                .scale_embedding = false,
                                .tied = is_output_tied(folder, {"lm_head.weight", "", shared_table(folder, "")}, true),
                                .dropout = c.number("dropout_rate", 0.1, 0, kMostDropout),
                                .context = kContext};
  // Before transformers 5, "tie_word_embeddings" implied scaling. mT5 never scales, even if its weights are tied.
  const bool is_scaled = c.model_type() != "mt5" && c.flag("tie_word_embeddings", true);
  config.scale_output = c.flag("scale_decoder_outputs", is_scaled);
  expect_pair(c);
  expect_other_names(c, {{"hidden_size", config.dim},
                         {"num_attention_heads", config.heads},
                         {"num_hidden_layers", config.encoder_layers},
                         {"head_dim", config.head_dim}});
  c.ignore({"n_positions"});  // distances have no end
  Rng rng;
  return TransformerModel::create(config, rng);
}

void add_attention(NameMap& map, const std::string& theirs, const std::string& ours) {
  map.add(theirs + ".q.weight", ours + ".query.weight");
  map.add(theirs + ".k.weight", ours + ".key.weight");
  map.add(theirs + ".v.weight", ours + ".value.weight");
  map.add(theirs + ".o.weight", ours + ".output.weight");
}

void add_feed_forward(NameMap& map, const std::string& theirs, const std::string& ours, bool is_gated) {
  map.add(theirs + (is_gated ? ".wi_1.weight" : ".wi.weight"), ours + ".up.weight");
  if (is_gated) map.add(theirs + ".wi_0.weight", ours + ".gate.weight");
  map.add(theirs + ".wo.weight", ours + ".down.weight");
}

NameMap names(const HubFolder& folder, const Model& model) {
  const auto& settings = dynamic_cast<const TransformerModel&>(model).settings;
  NameMap map;
  map.add(shared_table(folder, ""), "embedding.weight");
  for (const std::string stack : {"encoder", "decoder"}) {
    const std::string theirs = stack + ".block.{}.layer.", ours = stack + ".layers.{}.";
    const bool looks_back = stack == "decoder";
    const std::string last = looks_back ? "2" : "1";
    map.add(stack + ".block.0.layer.0.SelfAttention.relative_attention_bias.weight",
            (looks_back ? "target" : "source") + std::string("_distances.weight"));
    add_attention(map, theirs + "0.SelfAttention", ours + "attention");
    map.add(theirs + "0.layer_norm.weight", ours + "attention_norm.weight");
    if (looks_back) {
      add_attention(map, theirs + "1.EncDecAttention", ours + "cross_attention");
      map.add(theirs + "1.layer_norm.weight", ours + "cross_attention_norm.weight");
    }
    add_feed_forward(map, theirs + last + ".DenseReluDense", ours + "feed_forward", settings.gated);
    map.add(theirs + last + ".layer_norm.weight", ours + "feed_forward_norm.weight");
    map.add(stack + ".final_layer_norm.weight", stack + ".norm.weight");
  }
  if (!settings.tied) add_bare_tensor(map, "lm_head.weight", "output.weight");
  if (!settings.tied) {
    map.copies = {{"encoder.embed_tokens.weight", "shared.weight"}, {"decoder.embed_tokens.weight", "shared.weight"}};
  }
  map.repeats = {"shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"};
  // T5's first files have a position bias for cross-attention, which does not use positions.
  map.ignored = {"decoder.block.*.layer.1.EncDecAttention.relative_attention_bias.weight"};
  return map;
}

Json describe(const Model& model) {
  const TransformerModelConfig& c = model_of<TransformerModel>(model, "t5").settings;
  Refusals refusals("t5");
  refusals.expect("positions", c.positions, Positions::relative);
  refusals.expect("norm_first", c.norm_first, true);
  refusals.expect("rms_norm", c.rms_norm, true);
  refusals.expect("bias", c.bias, false);
  refusals.expect("scale_scores", c.scale_scores, false);
  refusals.expect("scale_embedding", c.scale_embedding, false);
  refusals.expect("embedding_norm", c.embedding_norm, false);
  refusals.expect("shared", c.shared, true);
  refusals.expect("scale_output", c.scale_output, c.tied);
  refusals.expect("output_bias", c.output_bias, false);
  refusals.refuse_unless(c.key_heads == 0 || c.key_heads == c.heads, "key_heads", setting_text(c.key_heads), "0");
  refusals.refuse_unless(c.decoder_heads == 0 || c.decoder_heads == c.heads, "decoder_heads",
                         setting_text(c.decoder_heads), "0");
  refusals.refuse_unless(c.decoder_ffn_dim == 0 || c.decoder_ffn_dim == c.ffn_dim, "decoder_ffn_dim",
                         setting_text(c.decoder_ffn_dim), "0");
  // T5's "gated-gelu" is gelu_tanh
  refusals.refuse_unless(!c.gated || c.activation != Activation::gelu, "activation", "gelu", "gelu_tanh");
  refusals.check();
  const std::string activation =
      c.gated && c.activation == Activation::gelu_tanh ? "gelu" : activation_name(c.activation);
  return {{"architectures", {"T5ForConditionalGeneration"}},
          {"vocab_size", c.vocab_size},
          {"d_model", c.dim},
          {"d_kv", c.head_dim > 0 ? c.head_dim : c.dim / c.heads},
          {"d_ff", c.ffn_dim},
          {"num_layers", c.encoder_layers},
          {"num_decoder_layers", c.decoder_layers},
          {"num_heads", c.heads},
          {"relative_attention_num_buckets", c.buckets},
          {"relative_attention_max_distance", c.max_distance},
          {"dropout_rate", c.dropout},
          {"layer_norm_epsilon", c.eps},
          {"feed_forward_proj", (c.gated ? "gated-" : "") + activation},
          {"scale_decoder_outputs", c.scale_output},
          {"tie_word_embeddings", c.tied},
          {"is_encoder_decoder", true}};
}

}  // namespace

HubArchitecture t5() { return {.model_type = "t5", .create = create, .names = names, .describe = describe}; }
HubArchitecture mt5() { return {.model_type = "mt5", .create = create, .names = names}; }

}  // namespace attend::hub
