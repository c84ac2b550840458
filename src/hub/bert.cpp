#include "attend/nn/init.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"
#include "hub/describe.h"
#include "hub/encoder_heads.h"
#include "hub/tied_output.h"

// BERT (Devlin et al. 2019) and RoBERTa (Liu et al. 2019), which differ in their heads and in the first position.
namespace attend::hub {
namespace {

constexpr const char* kBert = "bert.";
constexpr const char* kRoberta = "roberta.";
constexpr const char* kTable = "embeddings.word_embeddings.weight";
constexpr int64_t kUsualTypes = 2;

/// The settings common to both. Rejects settings that make them decoders.
EncoderConfig base_config(const HubFolder& folder) {
  const HubConfig& c = folder.config;
  expect_encoder(c);
  c.expect("position_embedding_type", "absolute");
  c.ignore({"attention_probs_dropout_prob", "classifier_dropout"});  // training alone
  // The first BERTs carry these along; no implementation of the network reads them.
  c.ignore({"directionality", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers",
            "pooler_size_per_head", "pooler_type"});
  return {.vocab_size = c.size("vocab_size", kMostVocab, 30522),
          .context = c.size("max_position_embeddings", kMostContext, 512),
          .dim = c.size("hidden_size", kMostWidth, 768),
          .heads = c.size("num_attention_heads", kMostWidth, 12),
          .layers = c.size("num_hidden_layers", kMostLayers, 12),
          .ffn_dim = c.size("intermediate_size", kMostWidth, 3072),
          .activation = c.activation("hidden_act", "gelu"),
          .norm_first = false,
          .eps = c.number("layer_norm_eps", 1e-12, 0, kMostEps),
          .types = c.count("type_vocab_size", kMostTypes, 2),
          .pooling = Pooling::first,
          .dropout = c.number("hidden_dropout_prob", 0.1, 0, kMostDropout)};
}

std::unique_ptr<Model> create_bert(const HubFolder& folder) {
  EncoderConfig config = base_config(folder);
  config.labels = text_labels(folder, "classifier.weight");
  config.scores = label_scores(folder, config.labels.size());
  config.pooler = has_tensor(folder, kBert, "pooler.dense.weight") ? Pooler::tanh : Pooler::none;
  config.masked = folder.weights.contains("cls.predictions.transform.dense.weight");
  config.tied = is_output_tied(folder, {"cls.predictions.decoder.weight", kBert, kTable}, true);
  Rng rng;
  return Encoder::create(config, rng);
}

/// The first row of RoBERTa's position table that a text uses: the row after the padding token's id, which defaults
/// to 1.
int64_t first_position(const HubFolder& folder) {
  const bool is_said = folder.config.has("pad_token_id");
  return std::max(is_said ? folder.config.token("pad_token_id") : 1, 0) + 1;
}

std::unique_ptr<Model> create_roberta(const HubFolder& folder) {
  EncoderConfig config = base_config(folder);
  const int64_t first = first_position(folder);
  if (config.context <= first) folder.config.refuse("'max_position_embeddings' is too small for any text");
  config.context -= first;
  config.labels = text_labels(folder, "classifier.out_proj.weight");
  config.scores = label_scores(folder, config.labels.size());
  const bool pools = !config.labels.empty() || has_tensor(folder, kRoberta, "pooler.dense.weight");
  config.pooler = pools ? Pooler::tanh : Pooler::none;
  config.masked = folder.weights.contains("lm_head.dense.weight");
  config.tied = is_output_tied(folder, {"lm_head.decoder.weight", kRoberta, kTable}, true);
  config.masked_gelu = true;
  Rng rng;
  return Encoder::create(config, rng);
}

/// Embeddings and layers.
NameMap body(const HubFolder& folder, const char* prefix, int64_t skipped_positions) {
  NameMap map{.prefix = prefix};
  map.add(kTable, "embedding.weight");
  map.add("embeddings.position_embeddings.weight", "positions.weight");
  map.rules.back().skipped_rows = skipped_positions;
  map.add("embeddings.token_type_embeddings.weight", "types.weight");
  add_norm(map, folder, "embeddings.LayerNorm", "embedding_norm");
  const std::string theirs = "encoder.layer.{}.", ours = "stack.layers.{}.";
  for (const char* part : {"query", "key", "value"}) {
    map.add_both(theirs + "attention.self." + part, ours + "attention." + part);
  }
  map.add_both(theirs + "attention.output.dense", ours + "attention.output");
  add_norm(map, folder, theirs + "attention.output.LayerNorm", ours + "attention_norm");
  map.add_both(theirs + "intermediate.dense", ours + "feed_forward.up");
  map.add_both(theirs + "output.dense", ours + "feed_forward.down");
  add_norm(map, folder, theirs + "output.LayerNorm", ours + "feed_forward_norm");
  map.ignored = {"embeddings.position_ids", "embeddings.token_type_ids"};
  return map;
}

NameMap bert_names(const HubFolder& folder, const Model& model) {
  const auto& settings = dynamic_cast<const Encoder&>(model).settings;
  NameMap map = body(folder, kBert, 0);
  map.add_both("pooler.dense", "pooler");
  add_bare(map, "cls.predictions.transform.dense", "masked_dense");
  const bool is_old = folder.weights.contains("cls.predictions.transform.LayerNorm.gamma");
  add_bare_tensor(map, std::string("cls.predictions.transform.LayerNorm.") + (is_old ? "gamma" : "weight"),
                  "masked_norm.weight");
  add_bare_tensor(map, std::string("cls.predictions.transform.LayerNorm.") + (is_old ? "beta" : "bias"),
                  "masked_norm.bias");
  add_bare_tensor(map, "cls.predictions.bias", "masked_bias");
  if (!settings.tied) {
    add_bare_tensor(map, "cls.predictions.decoder.weight", "masked_output");
    map.copies = {{"cls.predictions.decoder.bias", "cls.predictions.bias"}};  // transformers then stores the bias twice
  }
  add_bare(map, "classifier", "classifier");
  for (const char* name : {"cls.seq_relationship.*", "cls.predictions.decoder.*"}) map.ignored.emplace_back(name);
  map.other_heads = {"qa_outputs.*"};
  if (settings.labels.empty()) map.other_heads.emplace_back("classifier.*");
  return map;
}

Json describe_bert(const Model& model) {
  const EncoderConfig& c = model_of<Encoder>(model, "bert").settings;
  const bool classifies = !c.labels.empty();
  Refusals refusals("bert");
  refusals.expect("norm_first", c.norm_first, false);
  const bool has_table =
      c.positions == Positions::learned || c.positions == Positions::sinusoidal || c.positions == Positions::none;
  refusals.refuse_unless(has_table, "positions", setting_text(c.positions), "learned");
  if (classifies) refusals.expect("pooling", c.pooling, Pooling::first);
  if (c.masked && c.activation != Activation::gelu) refusals.expect("masked_gelu", c.masked_gelu, false);
  refusals.refuse_unless(c.pooler == Pooler::tanh || (c.pooler == Pooler::none && !classifies), "pooler",
                         setting_text(c.pooler), "tanh");
  refusals.check();
  Json json{{"vocab_size", c.vocab_size},
            {"hidden_size", c.dim},
            {"num_hidden_layers", c.layers},
            {"num_attention_heads", c.heads},
            {"intermediate_size", c.ffn_dim > 0 ? c.ffn_dim : 4 * c.dim},
            {"hidden_act", activation_name(c.activation)},
            {"hidden_dropout_prob", c.dropout},
            {"attention_probs_dropout_prob", c.dropout},
            {"max_position_embeddings", c.context},
            {"type_vocab_size", c.types > 0 ? c.types : kUsualTypes},
            {"layer_norm_eps", c.eps},
            {"tie_word_embeddings", c.tied}};
  json["architectures"] = {classifies ? "BertForSequenceClassification" : c.masked ? "BertForMaskedLM" : "BertModel"};
  if (classifies && c.scores == LabelScores::values) json["problem_type"] = "regression";
  if (c.labels.size() > 1 && c.scores == LabelScores::each) json["problem_type"] = "multi_label_classification";
  for (size_t i = 0; i < c.labels.size(); ++i) {
    json["id2label"][std::to_string(i)] = c.labels[i];
    json["label2id"][c.labels[i]] = i;
  }
  return json;
}

/// BERT always has a position table and token types: a model without them gets tables of zeros.
std::unique_ptr<Model> prepare_bert(const Model& model) {
  const auto& from = dynamic_cast<const Encoder&>(model);
  EncoderConfig config = from.settings;
  config.positions = Positions::learned;
  if (config.types == 0) config.types = kUsualTypes;
  const BlankParameters scope;
  Rng rng;
  auto result = Encoder::create(config, rng);
  std::map<std::string, Tensor> before;
  for (const auto& [name, tensor] : from.parameters()) before[name] = tensor.detach();
  result->visit_parameters([&](const std::string& name, Tensor& parameter) {
    const bool is_waves = name == "positions.weight" && from.waves;
    const Tensor value = is_waves ? slice(from.waves.rows(config.context), 0, 0, config.context).clone() : before[name];
    parameter = value ? value : zeros(parameter.shape());
  });
  return result;
}

NameMap roberta_names(const HubFolder& folder, const Model& model) {
  const auto& settings = dynamic_cast<const Encoder&>(model).settings;
  NameMap map = body(folder, kRoberta, first_position(folder));
  if (settings.labels.empty()) {
    map.add_both("pooler.dense", "pooler");
  } else {  // RoBERTa's classifier has its own pooler
    add_bare(map, "classifier.dense", "pooler");
    add_bare(map, "classifier.out_proj", "classifier");
    map.ignored.emplace_back("pooler.*");
  }
  add_bare(map, "lm_head.dense", "masked_dense");
  add_bare(map, "lm_head.layer_norm", "masked_norm");
  add_bare_tensor(map, "lm_head.bias", "masked_bias");
  if (!settings.tied) add_bare_tensor(map, "lm_head.decoder.weight", "masked_output");
  map.ignored.emplace_back("lm_head.decoder.*");
  map.other_heads = {"qa_outputs.*"};
  if (settings.labels.empty()) map.other_heads.emplace_back("classifier.*");
  return map;
}

}  // namespace

HubArchitecture bert() {
  return {.model_type = "bert",
          .create = create_bert,
          .names = bert_names,
          .describe = describe_bert,
          .prepare = prepare_bert};
}
HubArchitecture roberta(const char* model_type) {
  return {.model_type = model_type, .create = create_roberta, .names = roberta_names};
}

}  // namespace attend::hub
