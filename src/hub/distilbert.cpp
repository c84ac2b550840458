#include "hub/encoder_heads.h"
#include "hub/tied_output.h"

// DistilBERT (Sanh et al. 2019): BERT with half the layers and without token types.
namespace attend::hub {
namespace {

constexpr const char* kPrefix = "distilbert.";
constexpr const char* kTable = "embeddings.word_embeddings.weight";

std::unique_ptr<Model> create(const HubFolder& folder) {
  const HubConfig& c = folder.config;
  EncoderConfig config{.vocab_size = c.size("vocab_size", kMostVocab, 30522),
                       .labels = text_labels(folder, "classifier.weight"),
                       .context = c.size("max_position_embeddings", kMostContext, 512),
                       .dim = c.size("dim", kMostWidth, 768),
                       .heads = c.size("n_heads", kMostWidth, 12),
                       .layers = c.size("n_layers", kMostLayers, 6),
                       .ffn_dim = c.size("hidden_dim", kMostWidth, 3072),
                       .activation = c.activation("activation", "gelu"),
                       .norm_first = false,
                       .eps = 1e-12,
                       .pooling = Pooling::first,
                       .masked = folder.weights.contains("vocab_transform.weight"),
                       .tied = is_output_tied(folder, {"vocab_projector.weight", kPrefix, kTable}, true),
                       .dropout = c.number("dropout", 0.1, 0, kMostDropout)};
  config.scores = label_scores(folder, config.labels.size());
  expect_encoder(c);
  expect_other_names(
      c, {{"hidden_size", config.dim}, {"num_attention_heads", config.heads}, {"num_hidden_layers", config.layers}});
  c.ignore({"attention_dropout", "qa_dropout", "seq_classif_dropout"});  // training alone
  c.ignore({"sinusoidal_pos_embds"});  // how the table of positions, which is in the files, was filled
  c.ignore({"tie_weights_"});          // see is_output_tied
  if (!config.labels.empty()) config.pooler = Pooler::relu;
  Rng rng;
  return Encoder::create(config, rng);
}

NameMap names(const HubFolder& folder, const Model& model) {
  NameMap map{.prefix = kPrefix};
  map.add(kTable, "embedding.weight");
  map.add("embeddings.position_embeddings.weight", "positions.weight");
  add_norm(map, folder, "embeddings.LayerNorm", "embedding_norm");
  const std::string theirs = "transformer.layer.{}.", ours = "stack.layers.{}.";
  map.add_both(theirs + "attention.q_lin", ours + "attention.query");
  map.add_both(theirs + "attention.k_lin", ours + "attention.key");
  map.add_both(theirs + "attention.v_lin", ours + "attention.value");
  map.add_both(theirs + "attention.out_lin", ours + "attention.output");
  map.add_both(theirs + "sa_layer_norm", ours + "attention_norm");
  map.add_both(theirs + "ffn.lin1", ours + "feed_forward.up");
  map.add_both(theirs + "ffn.lin2", ours + "feed_forward.down");
  map.add_both(theirs + "output_layer_norm", ours + "feed_forward_norm");
  add_bare(map, "vocab_transform", "masked_dense");
  add_bare(map, "vocab_layer_norm", "masked_norm");
  add_bare_tensor(map, "vocab_projector.bias", "masked_bias");
  const auto& settings = dynamic_cast<const Encoder&>(model).settings;
  if (!settings.tied) {
    add_bare_tensor(map, "vocab_projector.weight", "masked_output");
  }
  add_bare(map, "pre_classifier", "pooler");
  add_bare(map, "classifier", "classifier");
  map.ignored = {"embeddings.position_ids", "vocab_projector.weight"};
  map.other_heads = {"qa_outputs.*"};
  if (settings.labels.empty()) map.other_heads.insert(map.other_heads.end(), {"pre_classifier.*", "classifier.*"});
  return map;
}

}  // namespace

HubArchitecture distilbert() { return {.model_type = "distilbert", .create = create, .names = names}; }

}  // namespace attend::hub
