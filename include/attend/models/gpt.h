#pragma once

#include "attend/models/model.h"
#include "attend/models/settings.h"
#include "attend/nn/embedding.h"
#include "attend/nn/transformer.h"

namespace attend {

struct GptConfig {
  int64_t words = 0;
  int64_t context = 256;
  int64_t dim = 384;
  int64_t heads = 6;
  int64_t key_heads = 0;
  int64_t layers = 6;
  int64_t hidden = 0;
  Activation activation = Activation::gelu_tanh;
  bool gated = false;
  bool rms_norm = false;
  bool bias = true;
  Positions positions = Positions::learned;
  double dropout = 0.1;

  static constexpr auto settings() {
    using C = GptConfig;
    return std::tuple{
        setting("words", &C::words, "size of the vocabulary", kMostWords),
        setting("context", &C::context, "how many tokens back it can see", kMostContext),
        setting("dim", &C::dim, "width of every layer", kMostWidth),
        setting("heads", &C::heads, "attention heads; they divide dim", kMostWidth),
        setting("key_heads", &C::key_heads, "key and value heads; fewer are shared (0: as many)", kMostWidth),
        setting("layers", &C::layers, "number of layers", kMostLayers),
        setting("hidden", &C::hidden, "width inside the feed-forward network (0: 4 · dim)", kMostWidth),
        setting("activation", &C::activation, "of the feed-forward network"),
        setting("gated", &C::gated, "gated feed-forward network"),
        setting("rms_norm", &C::rms_norm, "RMSNorm instead of LayerNorm"),
        setting("bias", &C::bias, "biases on projections and norms"),
        setting("positions", &C::positions, "how positions are known"),
        setting("dropout", &C::dropout, "share of values dropped while training", kMostDropout)};
  }
};

/// A decoder alone (Radford et al. 2018, 2019): norms first, learned positions, the embedding matrix is the output
/// layer too. Rotary positions, RMSNorm, gates and grouped heads make it a Llama.
struct Gpt final : LanguageModel {
  GptConfig settings;
  Embedding embedding;
  std::optional<LearnedPositions> positions;
  TransformerEncoder layers;
  Tensor waves;  ///< sines and cosines, [context, dim]: computed, not a parameter

  static std::unique_ptr<Gpt> create(const GptConfig& config, Rng& rng);

  std::string architecture() const override { return "gpt"; }
  std::string config() const override;
  std::vector<NamedTensor> parameters() const override { return named_parameters(*this); }
  void visit_parameters(const ParameterVisitor& visit) override { for_each_parameter(*this, "", visit); }
  int64_t words() const override { return settings.words; }
  int64_t context() const override { return settings.context; }
  Tensor hidden(const Tensor& ids, const ForwardContext& context = {}) const override;
  Head head() const override { return {embedding.weight, {}}; }
  std::unique_ptr<Decoding> start() const override;

  static constexpr auto fields() {
    return std::tuple{field("embedding", &Gpt::embedding), field("positions", &Gpt::positions),
                      field("stack", &Gpt::layers)};
  }
};

}  // namespace attend
