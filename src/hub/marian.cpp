#include "hub/pair_describe.h"
#include "hub/pair_names.h"
#include "hub/tied_output.h"

// Marian (Junczys-Dowmunt et al. 2018), the translation models of Opus-MT: sinusoidal positions with all sines first.
// Pegasus (Zhang et al. 2020): the same with pre-norm layers and one embedding for both sides.
namespace attend::hub {
namespace {

std::unique_ptr<Model> create_with_waves(const HubFolder& folder, TransformerModelConfig config) {
  config.positions = Positions::sinusoidal;
  config.wave_halves = true;
  check_waves(folder, config);
  expect_layout(folder.config, config);
  folder.config.ignore({"extra_pos_embeddings"});  // rows of a table that waves do not have
  Rng rng;
  return TransformerModel::create(config, rng);
}

std::unique_ptr<Model> create_marian(const HubFolder& folder) {
  expect_architecture(folder, {"MarianMTModel", "MarianModel"});
  const HubConfig& c = folder.config;
  TransformerModelConfig config = pair_config(folder);
  if (c.size("decoder_vocab_size", kMostVocab, config.vocab_size) != config.vocab_size) {
    c.refuse("'decoder_vocab_size' must equal 'vocab_size'");
  }
  config.shared = c.flag("share_encoder_decoder_embeddings", true);
  if (!config.shared)
    config.tied = is_output_tied(folder, {"lm_head.weight", "model.", "decoder.embed_tokens.weight"}, true);
  return create_with_waves(folder, config);
}

std::unique_ptr<Model> create_pegasus(const HubFolder& folder) {
  expect_architecture(folder, {"PegasusForConditionalGeneration", "PegasusModel"});
  TransformerModelConfig config = pair_config(folder);
  config.norm_first = true;
  return create_with_waves(folder, config);
}

NameMap names(const HubFolder& folder, const Model& model) {
  NameMap map = pair_names(folder, dynamic_cast<const TransformerModel&>(model));
  map.ignored.emplace_back("encoder.embed_positions.weight");  // sinusoidal positions, which attend computes
  map.ignored.emplace_back("decoder.embed_positions.weight");
  return map;
}

/// The part of config.json that both share.
Json waves_json(const TransformerModelConfig& c, Refusals& refusals) {
  Json json = pair_json(c, refusals);
  refusals.expect("positions", c.positions, Positions::sinusoidal);
  refusals.expect("embedding_norm", c.embedding_norm, false);
  return json;
}

Json describe_marian(const Model& model) {
  const TransformerModelConfig& c = model_of<TransformerModel>(model, "marian").settings;
  Refusals refusals("marian");
  Json json = waves_json(c, refusals);
  refusals.expect("norm_first", c.norm_first, false);
  refusals.check();
  json["decoder_vocab_size"] = c.vocab_size;
  json["share_encoder_decoder_embeddings"] = c.shared;
  json["static_position_embeddings"] = true;
  json["architectures"] = {"MarianMTModel"};
  return json;
}

Json describe_pegasus(const Model& model) {
  const TransformerModelConfig& c = model_of<TransformerModel>(model, "pegasus").settings;
  Refusals refusals("pegasus");
  Json json = waves_json(c, refusals);
  refusals.expect("norm_first", c.norm_first, true);
  refusals.expect("shared", c.shared, true);
  refusals.check();
  json["architectures"] = {"PegasusForConditionalGeneration"};
  return json;
}

std::unique_ptr<Model> prepare(const Model& model) {
  return with_wave_halves(dynamic_cast<const TransformerModel&>(model));
}

}  // namespace

HubArchitecture marian() {
  return {
      .model_type = "marian", .create = create_marian, .names = names, .describe = describe_marian, .prepare = prepare};
}
HubArchitecture pegasus() {
  return {.model_type = "pegasus",
          .create = create_pegasus,
          .names = names,
          .describe = describe_pegasus,
          .prepare = prepare};
}

}  // namespace attend::hub
