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
  int64_t ffn_dim = 0;  ///< 0: 4 · dim
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
    visit("vocab_size", &C::vocab_size, "Vocabulary size", kMostVocab);
    visit("labels", &C::labels, "Names of the classes");
    visit("context", &C::context, "Maximum sequence length in tokens", kMostContext);
    visit("dim", &C::dim, "Model width", kMostWidth);
    visit("heads", &C::heads, "Number of attention heads, a divisor of dim", kMostWidth);
    visit("layers", &C::layers, "Number of layers", kMostLayers);
    visit("ffn_dim", &C::ffn_dim, "Feed-forward width", kMostWidth);
    visit("activation", &C::activation, "Activation of the feed-forward network");
    visit("norm_first", &C::norm_first, "Norm before each residual branch instead of after");
    visit("eps", &C::eps, "Epsilon in norms", kMostEps);
    visit("positions", &C::positions, "Position encoding");
    visit("types", &C::types, "Number of token types, for pairs of texts (0: no token types)", kMostTypes);
    visit("pooling", &C::pooling, "Token vectors that represent the text");
    visit("pooler", &C::pooler, "Activation of a layer before the classifier");
    visit("scores", &C::scores, "Meaning of the classifier's outputs");
    visit("masked_head", &C::masked, "Output layers for masked language modelling");
    visit("masked_gelu", &C::masked_gelu, "GELU in the masked-language-model head, independent of activation");
    visit("tied", &C::tied, "Embedding matrix shared with the output layer");
    visit("dropout", &C::dropout, "Dropout probability", kMostDropout);
  }
};

/// An encoder-only model for classification and masked language modelling (Devlin et al. 2019). With the right settings
/// it is a BERT, a DistilBERT (Sanh et al. 2019) or a RoBERTa (Liu et al. 2019).
struct Encoder final : EncoderModel {
  EncoderConfig settings;
  Embedding embedding;
  std::optional<LearnedPositions> positions;
  std::optional<Embedding> types;
  Norm embedding_norm;
  TransformerEncoder layers;
  std::optional<Linear> pooler;
  std::optional<Linear> masked_dense;  ///< layer of the masked-language-model head before its output layer
  std::optional<Norm> masked_norm;
  Tensor masked_bias;
  Tensor masked_output;              ///< output layer [vocab_size, dim]; empty if tied to the embedding
  std::optional<Linear> classifier;  ///< absent if the model has no labels
  WaveTable waves;                   ///< sinusoidal positions; computed, not a parameter

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
  /// If `inputs` has lengths and `pass` has neither an Rng nor an observer, only the tokens that are not padding are
  /// computed, packed into one sequence. The vectors of the padding are then 0.
  Tensor hidden(const TextInputs& inputs, const ForwardPass& pass = {}) const override;
  /// The vector of each text, after the pooler: [batch, dim].
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
