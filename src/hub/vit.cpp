#include "attend/models/vision.h"
#include "hub/encoder_heads.h"
#include "hub/pair_names.h"

// The Vision Transformer (Dosovitskiy et al. 2021).
namespace attend::hub {
namespace {

std::unique_ptr<Model> create(const HubFolder& folder) {
  expect_architecture(folder, {"ViTForImageClassification", "ViTModel"});
  const HubConfig& c = folder.config;
  expect_encoder(c);
  c.expect("problem_type", "single_label_classification");
  c.ignore({"attention_probs_dropout_prob"});                        // training alone
  c.ignore({"encoder_stride", "pooler_output_size", "pooler_act"});  // other heads
  c.ignore({"tie_word_embeddings"});                                 // there are no words
  Rng rng;
  return Vision::create({.image = c.size("image_size", kMostWidth, 224),
                         .patch = c.size("patch_size", kMostWidth, 16),
                         .channels = c.size("num_channels", kMostWidth, 3),
                         .labels = class_labels(folder, "classifier.weight"),
                         .dim = c.size("hidden_size", kMostWidth, 768),
                         .heads = c.size("num_attention_heads", kMostWidth, 12),
                         .layers = c.size("num_hidden_layers", kMostLayers, 12),
                         .ffn_dim = c.size("intermediate_size", kMostWidth, 3072),
                         .input_bias = c.flag("qkv_bias", true),
                         .activation = c.activation("hidden_act", "gelu"),
                         .eps = c.number("layer_norm_eps", 1e-12, 0, kMostEps),
                         .dropout = c.number("hidden_dropout_prob", 0, 0, kMostDropout)},
                        rng);
}

NameMap names(const HubFolder&, const Model&) {
  NameMap map{.prefix = "vit."};
  map.add("embeddings.cls_token", "whole", Layout::reshaped);
  map.add("embeddings.position_embeddings", "positions.weight", Layout::reshaped);
  map.add_both("embeddings.patch_embeddings.projection", "patches", Layout::reshaped);
  const std::string theirs = "encoder.layer.{}.", ours = "stack.layers.{}.";
  for (const char* part : {"query", "key", "value"}) {
    map.add_both(theirs + "attention.attention." + part, ours + "attention." + part);
  }
  map.add_both(theirs + "attention.output.dense", ours + "attention.output");
  map.add_both(theirs + "layernorm_before", ours + "attention_norm");
  map.add_both(theirs + "layernorm_after", ours + "feed_forward_norm");
  map.add_both(theirs + "intermediate.dense", ours + "feed_forward.up");
  map.add_both(theirs + "output.dense", ours + "feed_forward.down");
  map.add_both("layernorm", "stack.norm");
  add_bare(map, "classifier", "classifier");
  map.ignored = {"pooler.*", "embeddings.mask_token"};
  return map;
}

}  // namespace

HubArchitecture vit() { return {.model_type = "vit", .create = create, .names = names}; }

}  // namespace attend::hub
