#pragma once

#include "attend/models/model.h"
#include "attend/models/settings.h"
#include "attend/nn/embedding.h"
#include "attend/nn/transformer.h"

namespace attend {

struct TransformerModelConfig {
  int64_t words = 0;
  int64_t dim = 512;
  int64_t heads = 8;
  int64_t key_heads = 0;
  int64_t hidden = 2048;
  int64_t encoder_layers = 6;
  int64_t decoder_layers = 6;
  Activation activation = Activation::relu;
  bool gated = false;
  bool norm_first = false;
  bool rms_norm = false;
  Positions positions = Positions::sinusoidal;
  double dropout = 0.1;
  int64_t context = 1024;

  static constexpr auto settings() {
    using C = TransformerModelConfig;
    return std::tuple{
        setting("words", &C::words, "size of the vocabulary", kMostWords),
        setting("dim", &C::dim, "width of every layer", kMostWidth),
        setting("heads", &C::heads, "attention heads; they divide dim", kMostWidth),
        setting("key_heads", &C::key_heads, "key and value heads; fewer are shared (0: as many)", kMostWidth),
        setting("hidden", &C::hidden, "width inside the feed-forward network", kMostWidth),
        setting("encoder_layers", &C::encoder_layers, "layers that read the source", kMostLayers),
        setting("decoder_layers", &C::decoder_layers, "layers that write the target", kMostLayers),
        setting("activation", &C::activation, "of the feed-forward network"),
        setting("gated", &C::gated, "gated feed-forward network"),
        setting("norm_first", &C::norm_first, "norm before each branch instead of after"),
        setting("rms_norm", &C::rms_norm, "RMSNorm instead of LayerNorm"),
        setting("positions", &C::positions, "how positions are known"),
        setting("dropout", &C::dropout, "share of values dropped while training", kMostDropout),
        setting("context", &C::context, "longest sentence, in tokens", kMostContext)};
  }
};

/// Encoder and decoder of "Attention Is All You Need" (2017) §3: one matrix embeds both languages, times √dim, and is
/// the output layer too; sines and cosines tell positions.
struct TransformerModel final : PairModel {
  TransformerModelConfig settings;
  Embedding embedding;
  std::optional<LearnedPositions> source_positions, target_positions;
  TransformerEncoder encoder;
  TransformerDecoder decoder;
  Tensor waves;  ///< sines and cosines, [context, dim]: computed, not a parameter

  static std::unique_ptr<TransformerModel> create(const TransformerModelConfig& config, Rng& rng);

  std::string architecture() const override { return "transformer"; }
  std::string config() const override;
  std::vector<NamedTensor> parameters() const override { return named_parameters(*this); }
  void visit_parameters(const ParameterVisitor& visit) override { for_each_parameter(*this, "", visit); }
  std::vector<Tensor*> matrices() override { return matrices_of(*this); }
  int64_t words() const override { return settings.words; }
  int64_t context() const override { return settings.context; }
  Tensor encode(const Tensor& source, const Tensor& source_lengths, const ForwardContext& context = {}) const;
  Tensor hidden(const PairInputs& inputs, const ForwardContext& context = {}) const override;
  Head head() const override { return {embedding.weight, {}}; }
  std::vector<Tensor> cross_weights(const std::vector<AttentionTrace>& traces) const override;
  std::unique_ptr<Decoding> start(const Tensor& source, const Tensor& source_lengths, int64_t rows) const override;

  static constexpr auto fields() {
    using Self = TransformerModel;
    return std::tuple{field("embedding", &Self::embedding), field("source_positions", &Self::source_positions),
                      field("target_positions", &Self::target_positions), field("encoder", &Self::encoder),
                      field("decoder", &Self::decoder)};
  }
};

}  // namespace attend
