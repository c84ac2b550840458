#pragma once

#include "attend/models/model.h"
#include "attend/models/settings.h"
#include "attend/nn/embedding.h"
#include "attend/nn/transformer.h"

namespace attend {

struct EncoderConfig {
  int64_t words = 0;
  std::vector<std::string> labels;
  int64_t context = 512;
  int64_t dim = 256;
  int64_t heads = 4;
  int64_t layers = 4;
  int64_t hidden = 0;
  Activation activation = Activation::gelu;
  bool norm_first = true;
  Positions positions = Positions::learned;
  Pooling pooling = Pooling::mean;
  double dropout = 0.1;

  static constexpr auto settings() {
    using C = EncoderConfig;
    return std::tuple{setting("words", &C::words, "size of the vocabulary", kMostWords),
                      setting("labels", &C::labels, "what the classes are called"),
                      setting("context", &C::context, "longest text, in tokens", kMostContext),
                      setting("dim", &C::dim, "width of every layer", kMostWidth),
                      setting("heads", &C::heads, "attention heads; they divide dim", kMostWidth),
                      setting("layers", &C::layers, "number of layers", kMostLayers),
                      setting("hidden", &C::hidden, "width inside the feed-forward network (0: 4 · dim)", kMostWidth),
                      setting("activation", &C::activation, "of the feed-forward network"),
                      setting("norm_first", &C::norm_first, "norm before each branch instead of after"),
                      setting("positions", &C::positions, "how positions are known"),
                      setting("pooling", &C::pooling, "which vector stands for the text"),
                      setting("dropout", &C::dropout, "share of values dropped while training", kMostDropout)};
  }
};

/// An encoder alone, for classification and masked-word training (Devlin et al. 2019).
struct Encoder final : EncoderModel {
  EncoderConfig settings;
  Embedding embedding;
  std::optional<LearnedPositions> positions;
  Norm embedding_norm;
  TransformerEncoder layers;
  Linear masked_dense;  ///< of masked-word training, whose output layer is the embedding's matrix and a bias
  Norm masked_norm;
  Tensor masked_bias;
  std::optional<Linear> classifier;  ///< none without labels: a model of masked words alone
  Tensor waves;                      ///< sines and cosines, [context, dim]: computed, not a parameter

  static std::unique_ptr<Encoder> create(const EncoderConfig& config, Rng& rng);

  std::string architecture() const override { return "encoder"; }
  std::string config() const override;
  std::vector<NamedTensor> parameters() const override { return named_parameters(*this); }
  void visit_parameters(const ParameterVisitor& visit) override { for_each_parameter(*this, "", visit); }
  std::vector<Tensor*> matrices() override { return matrices_of(*this); }
  int64_t words() const override { return settings.words; }
  int64_t context() const override { return settings.context; }
  std::vector<std::string> labels() const override { return settings.labels; }
  Tensor hidden(const TextInputs& inputs, const ForwardContext& context = {}) const override;
  Tensor classify(const TextInputs& inputs, const ForwardContext& context = {}) const override;
  Tensor masked_hidden(const TextInputs& inputs, const ForwardContext& context = {}) const override;
  Head masked_head() const override { return {embedding.weight, masked_bias}; }

  static constexpr auto fields() {
    using Self = Encoder;
    return std::tuple{field("embedding", &Self::embedding),           field("positions", &Self::positions),
                      field("embedding_norm", &Self::embedding_norm), field("stack", &Self::layers),
                      field("masked_dense", &Self::masked_dense),     field("masked_norm", &Self::masked_norm),
                      field("masked_bias", &Self::masked_bias),       field("classifier", &Self::classifier)};
  }
};

}  // namespace attend
