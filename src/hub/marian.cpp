#include "hub/pair_names.h"

// Marian's translators (Junczys-Dowmunt et al. 2018), the models of Opus-MT: waves with all sines first.
namespace attend::hub {
namespace {

std::unique_ptr<Model> create(const HubFolder& folder) {
  expect_architecture(folder, {"MarianMTModel", "MarianModel"});
  const HubConfig& c = folder.config;
  TransformerModelConfig config = pair_config(folder);
  if (c.size("decoder_vocab_size", kMostWords, config.words) != config.words) {
    c.refuse("a 'decoder_vocab_size' other than 'vocab_size' is not supported");
  }
  config.shared = c.flag("share_encoder_decoder_embeddings", true);
  config.positions = Positions::sinusoidal;
  config.wave_halves = true;
  check_waves(folder, config);
  Rng rng;
  return TransformerModel::create(config, rng);
}

NameMap names(const HubFolder& folder, const Model& model) {
  NameMap map = pair_names(folder, dynamic_cast<const TransformerModel&>(model));
  map.ignored.emplace_back("encoder.embed_positions.weight");  // the waves, which are computed
  map.ignored.emplace_back("decoder.embed_positions.weight");
  return map;
}

}  // namespace

HubArchitecture marian() { return {.model_type = "marian", .create = create, .names = names}; }

}  // namespace attend::hub
