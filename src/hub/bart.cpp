#include "hub/pair_describe.h"
#include "hub/pair_names.h"

// BART (Lewis et al. 2020): learned positions and a norm after the embedding. mBART (Liu et al. 2020): the same with
// pre-norm layers.
namespace attend::hub {
namespace {

constexpr int64_t kFirstPosition = 2;  // Fairseq reserved the first rows for padding

std::unique_ptr<Model> create_model(const HubFolder& folder, bool norm_first) {
  TransformerModelConfig config = pair_config(folder);
  config.positions = Positions::learned;
  config.embedding_norm = true;
  config.norm_first = norm_first;
  expect_layout(folder.config, config);
  folder.config.expect("extra_pos_embeddings", kFirstPosition);
  Rng rng;
  return TransformerModel::create(config, rng);
}

std::unique_ptr<Model> create_bart(const HubFolder& folder) {
  expect_architecture(folder, {"BartForConditionalGeneration", "BartModel"});
  return create_model(folder, false);
}

std::unique_ptr<Model> create_mbart(const HubFolder& folder) {
  expect_architecture(folder, {"MBartForConditionalGeneration", "MBartModel"});
  return create_model(folder, true);
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

Json describe(const Model& model, const char* to, const char* architecture, bool norm_first) {
  const TransformerModelConfig& c = model_of<TransformerModel>(model, to).settings;
  Refusals refusals(to);
  Json json = pair_json(c, refusals);
  refusals.expect("norm_first", c.norm_first, norm_first);
  refusals.expect("embedding_norm", c.embedding_norm, true);
  refusals.expect("shared", c.shared, true);
  const bool has_table =
      c.positions == Positions::learned || c.positions == Positions::sinusoidal || c.positions == Positions::none;
  refusals.refuse_unless(has_table, "positions", setting_text(c.positions), "learned");
  refusals.check();
  json["architectures"] = {architecture};
  return json;
}

Json describe_bart(const Model& model) { return describe(model, "bart", "BartForConditionalGeneration", false); }
Json describe_mbart(const Model& model) { return describe(model, "mbart", "MBartForConditionalGeneration", true); }

std::unique_ptr<Model> prepare(const Model& model) {
  return with_position_tables(dynamic_cast<const TransformerModel&>(model));
}

}  // namespace

HubArchitecture bart() {
  return {.model_type = "bart", .create = create_bart, .names = names, .describe = describe_bart, .prepare = prepare};
}
HubArchitecture mbart() {
  return {
      .model_type = "mbart", .create = create_mbart, .names = names, .describe = describe_mbart, .prepare = prepare};
}

}  // namespace attend::hub
