#pragma once

#include "attend/models/model.h"
#include "attend/models/settings.h"
#include "attend/models/wave_table.h"
#include "attend/nn/embedding.h"
#include "attend/nn/transformer.h"

namespace attend {

struct GptConfig {
  int64_t vocab_size = 0;
  int64_t context = 256;
  int64_t dim = 384;
  int64_t heads = 6;
  int64_t key_heads = 0;
  int64_t layers = 6;
  int64_t ffn_dim = 0;  ///< 0: 4 · dim
  Activation activation = Activation::gelu_tanh;
  bool gated = false;
  bool rms_norm = false;
  bool bias = true;
  Positions positions = Positions::learned;
  double dropout = 0.1;
  bool tied = true;
  bool output_bias = false;
  double eps = 1e-5;
  int64_t head_dim = 0;
  AttentionBias attention_bias = AttentionBias::as_others;
  bool qk_norm = false;
  int64_t window = 0;
  std::vector<std::string> layer_kinds;
  double attention_scale = 0;
  bool scale_by_layer = false;
  double rope_theta = 10000;
  int64_t rope_dims = 0;
  RopeScaling rope_scaling = RopeScaling::none;
  double rope_factor = 1;
  double rope_low = 1;
  double rope_high = 4;
  int64_t rope_context = 8192;

  static void settings(auto&& visit) {
    using C = GptConfig;
    visit("vocab_size", &C::vocab_size, "Vocabulary size", kMostVocab);
    visit("context", &C::context, "Maximum sequence length in tokens", kMostContext);
    visit("dim", &C::dim, "Model width", kMostWidth);
    visit("heads", &C::heads, "Number of attention heads, a divisor of dim", kMostWidth);
    visit("key_heads", &C::key_heads, "Number of key and value heads, a divisor of heads (0: heads)", kMostWidth);
    visit("layers", &C::layers, "Number of layers", kMostLayers);
    visit("ffn_dim", &C::ffn_dim, "Feed-forward width", kMostWidth);
    visit("activation", &C::activation, "Activation of the feed-forward network");
    visit("gated", &C::gated, "Gated feed-forward network");
    visit("rms_norm", &C::rms_norm, "RMSNorm instead of LayerNorm");
    visit("bias", &C::bias, "Biases on projections and norms");
    visit("positions", &C::positions, "Position encoding");
    visit("dropout", &C::dropout, "Dropout probability", kMostDropout);
    visit("tied", &C::tied, "Embedding matrix shared with the output layer");
    visit("output_bias", &C::output_bias, "Bias on the output layer");
    visit("eps", &C::eps, "Epsilon in norms", kMostEps);
    visit("head_dim", &C::head_dim, "Width of a head (0: dim / heads)", kMostWidth);
    visit("attention_bias", &C::attention_bias, "Attention projections with biases");
    visit("qk_norm", &C::qk_norm, "RMSNorm on queries and keys");
    visit("window", &C::window, "Attention window in tokens (0: unlimited)", kMostContext);
    visit("layer_kinds", &C::layer_kinds, "\"full\" or \"window\" for each layer (empty: all layers use window)");
    visit("attention_scale", &C::attention_scale, "Factor of attention scores (0: 1 / √head_dim)", kMostWidth);
    visit("scale_by_layer", &C::scale_by_layer, "Attention scores also divided by the layer's number, from 1");
    visit("rope_theta", &C::rope_theta, "RoPE base frequency");
    visit("rope_dims", &C::rope_dims, "Number of features per head that RoPE rotates (0: all)", kMostWidth);
    visit("rope_scaling", &C::rope_scaling, "RoPE scaling method");
    visit("rope_factor", &C::rope_factor, "RoPE scaling factor", kMostContext);
    visit("rope_low", &C::rope_low, "llama3: full scaling for waves above rope_context / rope_low", kMostContext);
    visit("rope_high", &C::rope_high, "llama3: no scaling for waves below rope_context / rope_high", kMostContext);
    visit("rope_context", &C::rope_context, "llama3: context length before scaling", kMostContext);
  }
};

/// A decoder-only language model (Radford et al. 2018, 2019): norms before the branches, learned positions, and the
/// embedding matrix as output layer. With RoPE, RMSNorm, a gated feed-forward network and grouped heads it is a Llama.
struct Gpt final : LanguageModel {
  GptConfig settings;
  Embedding embedding;
  std::optional<LearnedPositions> positions;
  TransformerEncoder layers;
  std::optional<Linear> output;  ///< the output layer; absent if tied to the embedding
  Tensor output_bias;            ///< [vocab_size] or empty
  WaveTable waves;               ///< sinusoidal positions; computed, not a parameter

  static std::unique_ptr<Gpt> create(const GptConfig& config, Rng& rng);

  std::string architecture() const override { return "gpt"; }
  std::string config() const override;
  std::vector<NamedTensor> parameters() const override;
  void visit_parameters(const ParameterVisitor& visit) override;
  std::vector<Tensor*> matrices() override;
  int64_t vocab_size() const override { return settings.vocab_size; }
  int64_t dim() const override { return settings.dim; }
  int64_t context() const override { return settings.context; }
  Positions position_kind() const override { return settings.positions; }
  Tensor hidden(const Tensor& ids, const ForwardPass& pass = {}) const override;
  Head head() const override { return {output ? output->weight : embedding.weight, output_bias}; }
  std::unique_ptr<Decoding> start() const override;

  static void fields(auto&& visit) {
    visit("embedding", &Gpt::embedding);
    visit("positions", &Gpt::positions);
    visit("stack", &Gpt::layers);
    visit("output", &Gpt::output);
    visit("output_bias", &Gpt::output_bias);
  }
};

}  // namespace attend
