#pragma once

#include "attend/models/model.h"
#include "attend/models/settings.h"
#include "attend/models/wave_table.h"
#include "attend/nn/embedding.h"
#include "attend/nn/relative_bias.h"
#include "attend/nn/transformer.h"

namespace attend {

struct TransformerModelConfig {
  int64_t vocab_size = 0;
  int64_t dim = 512;
  int64_t heads = 8;
  int64_t key_heads = 0;
  int64_t head_dim = 0;
  int64_t ffn_dim = 2048;
  int64_t encoder_layers = 6;
  int64_t decoder_layers = 6;
  int64_t decoder_heads = 0;
  int64_t decoder_ffn_dim = 0;
  Activation activation = Activation::relu;
  bool gated = false;
  bool norm_first = false;
  bool rms_norm = false;
  double eps = 1e-5;
  bool bias = true;
  bool scale_scores = true;
  Positions positions = Positions::sinusoidal;
  bool wave_halves = false;
  int64_t buckets = 32;
  int64_t max_distance = 128;
  bool scale_embedding = true;
  bool embedding_norm = false;
  bool shared = true;
  bool tied = true;
  bool scale_output = false;
  bool output_bias = false;
  double dropout = 0.1;
  int64_t context = 1024;

  static void settings(auto&& visit) {
    using C = TransformerModelConfig;
    visit("vocab_size", &C::vocab_size, "Vocabulary size", kMostVocab);
    visit("dim", &C::dim, "Model width", kMostWidth);
    visit("heads", &C::heads, "Number of attention heads, a divisor of dim", kMostWidth);
    visit("key_heads", &C::key_heads, "Number of key and value heads, a divisor of heads (0: heads)", kMostWidth);
    visit("head_dim", &C::head_dim, "Width of a head (0: dim / heads)", kMostWidth);
    visit("ffn_dim", &C::ffn_dim, "Feed-forward width (gpt, encoder: 0 means 4 · dim)", kMostWidth);
    visit("encoder_layers", &C::encoder_layers, "Number of encoder layers", kMostLayers);
    visit("decoder_layers", &C::decoder_layers, "Number of decoder layers", kMostLayers);
    visit("decoder_heads", &C::decoder_heads, "Number of attention heads in the decoder (0: heads)", kMostWidth);
    visit("decoder_ffn_dim", &C::decoder_ffn_dim, "Feed-forward width in the decoder (0: ffn_dim)", kMostWidth);
    visit("activation", &C::activation, "Activation of the feed-forward network");
    visit("gated", &C::gated, "Gated feed-forward network");
    visit("norm_first", &C::norm_first, "Norm before each residual branch instead of after");
    visit("rms_norm", &C::rms_norm, "RMSNorm instead of LayerNorm");
    visit("eps", &C::eps, "Epsilon in norms", kMostEps);
    visit("bias", &C::bias, "Biases on projections and norms");
    visit("scale_scores", &C::scale_scores, "Attention scores divided by √head_dim");
    visit("positions", &C::positions, "Position encoding");
    visit("wave_halves", &C::wave_halves, "sinusoidal: all sines, then all cosines, instead of interleaved");
    visit("buckets", &C::buckets, "relative: number of distance buckets", kMostWidth);
    visit("max_distance", &C::max_distance, "relative: distance from which all share a bucket", kMostContext);
    visit("scale_embedding", &C::scale_embedding, "Embeddings multiplied by √dim");
    visit("embedding_norm", &C::embedding_norm, "Norm after the embedding");
    visit("shared", &C::shared, "One embedding matrix for source and target");
    visit("tied", &C::tied, "Embedding matrix shared with the output layer");
    visit("scale_output", &C::scale_output, "Input of the output layer divided by √dim");
    visit("output_bias", &C::output_bias, "Bias on the output layer");
    visit("dropout", &C::dropout, "Dropout probability", kMostDropout);
    visit("context", &C::context, "Maximum sequence length in tokens", kMostContext);
  }
};

/// The encoder–decoder of "Attention Is All You Need" (2017) §3. By default, source, target and output layer share one
/// embedding matrix, embeddings are multiplied by √dim, and positions are sinusoidal. With other settings it is a
/// Marian, a BART (Lewis et al. 2020) or a T5 (Raffel et al. 2020).
struct TransformerModel final : PairModel {
  TransformerModelConfig settings;
  Embedding embedding;                        ///< of source and target, or of the source only
  std::optional<Embedding> target_embedding;  ///< absent if `shared`
  std::optional<LearnedPositions> source_positions, target_positions;
  std::optional<RelativeBias> source_distances, target_distances;  ///< shared by all layers of a stack
  std::optional<Norm> source_norm, target_norm;                    ///< norms after the embeddings
  TransformerEncoder encoder;
  TransformerDecoder decoder;
  Tensor output_weight;  ///< [vocab_size, dim]; empty if tied
  Tensor output_bias;    ///< [vocab_size] or empty
  WaveTable waves;       ///< sinusoidal positions; computed, not a parameter

  static std::unique_ptr<TransformerModel> create(const TransformerModelConfig& config, Rng& rng);

  std::string architecture() const override { return "transformer"; }
  std::string config() const override;
  std::vector<NamedTensor> parameters() const override;
  void visit_parameters(const ParameterVisitor& visit) override;
  std::vector<Tensor*> matrices() override;
  int64_t vocab_size() const override { return settings.vocab_size; }
  int64_t dim() const override { return settings.dim; }
  int64_t context() const override { return settings.context; }
  Positions position_kind() const override { return settings.positions; }
  Tensor encode(const Tensor& source, const Tensor& source_lengths, const ForwardPass& pass = {}) const;
  Tensor hidden(const PairInputs& inputs, const ForwardPass& pass = {}) const override;
  Head head() const override;
  std::vector<Tensor> cross_weights(const std::vector<AttentionTrace>& traces) const override;
  std::unique_ptr<Decoding> start(const Tensor& source, const Tensor& source_lengths) const override;

  static void fields(auto&& visit) {
    using Self = TransformerModel;
    visit("embedding", &Self::embedding);
    visit("target_embedding", &Self::target_embedding);
    visit("source_positions", &Self::source_positions);
    visit("target_positions", &Self::target_positions);
    visit("source_distances", &Self::source_distances);
    visit("target_distances", &Self::target_distances);
    visit("source_norm", &Self::source_norm);
    visit("target_norm", &Self::target_norm);
    visit("encoder", &Self::encoder);
    visit("decoder", &Self::decoder);
    visit("output.weight", &Self::output_weight);
    visit("output.bias", &Self::output_bias);
  }
};

}  // namespace attend
