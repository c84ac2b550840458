#pragma once

#include "attend/models/model.h"
#include "attend/models/settings.h"
#include "attend/models/wave_table.h"
#include "attend/nn/embedding.h"
#include "attend/nn/transformer.h"

namespace attend {

constexpr std::array<std::string_view, 3> names_of(LabelScores) { return {"shares", "each", "values"}; }

struct EncoderConfig {
  int64_t vocab_size = 0;
  std::vector<std::string> labels;
  int64_t context = 512;
  int64_t dim = 256;
  int64_t heads = 4;
  int64_t layers = 4;
  int64_t ffn_dim = 0;
  Activation activation = Activation::gelu;
  bool norm_first = true;
  double eps = 1e-5;
  Positions positions = Positions::learned;
  int64_t types = 0;
  Pooling pooling = Pooling::mean;
  Pooler pooler = Pooler::none;
  LabelScores scores = LabelScores::shares;
  bool masked = true;
  bool masked_gelu = false;
  bool tied = true;
  double dropout = 0.1;

  static void settings(auto&& visit) {
    using C = EncoderConfig;
    visit("vocab_size", &C::vocab_size, "size of the vocabulary", kMostVocab);
    visit("labels", &C::labels, "what the classes are called");
    visit("context", &C::context, "longest text, in tokens", kMostContext);
    visit("dim", &C::dim, "width of every layer", kMostWidth);
    visit("heads", &C::heads, "attention heads; they divide dim", kMostWidth);
    visit("layers", &C::layers, "number of layers", kMostLayers);
    visit("ffn_dim", &C::ffn_dim, "width inside the feed-forward network (0: 4 · dim)", kMostWidth);
    visit("activation", &C::activation, "of the feed-forward network");
    visit("norm_first", &C::norm_first, "norm before each branch instead of after");
    visit("eps", &C::eps, "added to the variance in norms", kMostEps);
    visit("positions", &C::positions, "how positions are known");
    visit("types", &C::types, "kinds of tokens, for pairs of texts (0: not told apart)", kMostTypes);
    visit("pooling", &C::pooling, "which vector stands for the text");
    visit("pooler", &C::pooler, "a layer between that vector and the classifier");
    visit("scores", &C::scores, "what the classifier's numbers become");
    visit("masked_head", &C::masked, "layers for masked-word training");
    visit("masked_gelu", &C::masked_gelu, "these have gelu whatever the activation of the other layers");
    visit("tied", &C::tied, "the embedding is the output layer of masked words");
    visit("dropout", &C::dropout, "share of values dropped while training", kMostDropout);
  }
};

/// An encoder alone, for classification and masked-word training (Devlin et al. 2019). Other settings make it a BERT, a
/// DistilBERT (Sanh et al. 2019) or a RoBERTa (Liu et al. 2019).
struct Encoder final : EncoderModel {
  EncoderConfig settings;
  Embedding embedding;
  std::optional<LearnedPositions> positions;
  std::optional<Embedding> types;
  Norm embedding_norm;
  TransformerEncoder layers;
  std::optional<Linear> pooler;
  std::optional<Linear> masked_dense;  ///< of masked words, whose output layer is the embedding's matrix and a bias
  std::optional<Norm> masked_norm;
  Tensor masked_bias;
  Tensor masked_output;              ///< [vocab_size, dim] unless tied
  std::optional<Linear> classifier;  ///< none without labels: a model of masked words alone
  WaveTable waves;                   ///< sines and cosines: computed, not a parameter

  static std::unique_ptr<Encoder> create(const EncoderConfig& config, Rng& rng);

  std::string architecture() const override { return "encoder"; }
  std::string config() const override;
  std::vector<NamedTensor> parameters() const override;
  void visit_parameters(const ParameterVisitor& visit) override;
  std::vector<Tensor*> matrices() override;
  int64_t vocab_size() const override { return settings.vocab_size; }
  int64_t dim() const override { return settings.dim; }
  int64_t context() const override { return settings.context; }
  Positions position_kind() const override { return settings.positions; }
  std::vector<std::string> labels() const override { return settings.labels; }
  int64_t token_types() const override { return settings.types; }
  LabelScores label_scores() const override { return settings.scores; }
  /// With lengths and nobody who watches or learns, only real tokens are computed: packed without padding, whose
  /// vectors are then 0.
  Tensor hidden(const TextInputs& inputs, const ForwardPass& pass = {}) const override;
  /// The vector that stands for each text, after the pooler: [batch, dim].
  Tensor pooled(const TextInputs& inputs, const ForwardPass& pass = {}) const;
  Tensor classify(const TextInputs& inputs, const ForwardPass& pass = {}) const override;
  bool has_masked_head() const override { return settings.masked; }
  Tensor masked_hidden(const TextInputs& inputs, const ForwardPass& pass = {}) const override;
  Head masked_head() const override;

  static void fields(auto&& visit) {
    using Self = Encoder;
    visit("embedding", &Self::embedding);
    visit("positions", &Self::positions);
    visit("types", &Self::types);
    visit("embedding_norm", &Self::embedding_norm);
    visit("stack", &Self::layers);
    visit("pooler", &Self::pooler);
    visit("masked_dense", &Self::masked_dense);
    visit("masked_norm", &Self::masked_norm);
    visit("masked_bias", &Self::masked_bias);
    visit("masked_output", &Self::masked_output);
    visit("classifier", &Self::classifier);
  }
};

}  // namespace attend
