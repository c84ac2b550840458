#include "hub/pair_names.h"

// BART (Lewis et al. 2020): learned positions, a norm after the embedding.
namespace attend::hub {
namespace {

constexpr int64_t kFirstPosition = 2;  // Fairseq kept the first rows for the padding

std::unique_ptr<Model> create(const HubFolder& folder) {
  expect_architecture(folder, {"BartForConditionalGeneration", "BartModel"});
  TransformerModelConfig config = pair_config(folder);
  config.positions = Positions::learned;
  config.embedding_norm = true;
  Rng rng;
  return TransformerModel::create(config, rng);
}

NameMap names(const HubFolder& folder, const Model& model) {
  NameMap map = pair_names(folder, dynamic_cast<const TransformerModel&>(model));
  for (const auto& [theirs, ours] : {std::pair("encoder", "source"), std::pair("decoder", "target")}) {
    map.add(std::string(theirs) + ".embed_positions.weight", std::string(ours) + "_positions.weight");
    map.rules.back().skipped_rows = kFirstPosition;
    map.add_both(std::string(theirs) + ".layernorm_embedding", std::string(ours) + "_norm");
  }
  return map;
}

}  // namespace

HubArchitecture bart() { return {.model_type = "bart", .create = create, .names = names}; }

}  // namespace attend::hub
