#pragma once

#include "attend/models/model.h"
#include "attend/models/settings.h"
#include "attend/nn/embedding.h"
#include "attend/nn/linear.h"
#include "attend/nn/memory_attention.h"
#include "attend/nn/recurrent.h"

namespace attend {

struct RnnConfig {
  int64_t vocab_size = 0;
  int64_t dim = 256;
  int64_t state_dim = 512;
  int64_t layers = 1;
  CellKind cell = CellKind::gru;
  bool bidirectional = true;
  double dropout = 0.2;
  int64_t context = 1024;
  Score score = Score::additive;  ///< ignored without attention

  static void settings(auto&& visit) {
    using C = RnnConfig;
    visit("vocab_size", &C::vocab_size, "Vocabulary size", kMostVocab);
    visit("dim", &C::dim, "Model width (rnn: of the embeddings)", kMostWidth);
    visit("state_dim", &C::state_dim, "Width of the recurrent state", kMostWidth);
    visit("layers", &C::layers, "Number of layers (rnn: in the encoder and in the decoder)", kMostLayers);
    visit("cell", &C::cell, "Recurrent cell");
    visit("bidirectional", &C::bidirectional, "Bidirectional encoder; each direction has half the width");
    visit("dropout", &C::dropout, "Dropout probability", kMostDropout);
    visit("context", &C::context, "Maximum sequence length in tokens", kMostContext);
    visit("score", &C::score, "Attention score function");
  }
};

/// The encoder–decoder of Cho et al. and Sutskever et al. (2014): the decoder's only input is the encoder's last state.
/// With attention (`look_back`) the decoder attends to all encoder states at every step, as in Bahdanau et al. (2015)
/// for additive scores and in Luong et al. (2015) for the others.
struct Rnn final : PairModel {
  RnnConfig settings;
  bool look_back = false;  ///< with attention
  Embedding embedding;     ///< shared by source, target and output layer
  Tensor output_bias;
  Recurrent encoder, decoder;
  std::vector<Linear> bridges;  ///< one per layer: from the encoder's last state to the decoder's initial state
  std::optional<BahdanauAttention> additive;
  std::optional<LuongAttention> multiplicative;
  Linear readout;  ///< from the state (with attention: also the attended memory and the last token) to `dim`

  static std::unique_ptr<Rnn> create(const RnnConfig& config, bool look_back, Rng& rng);

  std::string architecture() const override { return look_back ? "rnn-attention" : "rnn"; }
  std::string config() const override;
  std::vector<NamedTensor> parameters() const override;
  void visit_parameters(const ParameterVisitor& visit) override;
  std::vector<Tensor*> matrices() override;
  int64_t vocab_size() const override { return settings.vocab_size; }
  int64_t dim() const override { return settings.dim; }
  int64_t context() const override { return settings.context; }
  Positions position_kind() const override { return Positions::none; }
  Tensor hidden(const PairInputs& inputs, const ForwardPass& pass = {}) const override;
  Head head() const override { return {embedding.weight, output_bias}; }
  std::vector<Tensor> cross_weights(const std::vector<AttentionTrace>& traces) const override;
  std::unique_ptr<Decoding> start(const Tensor& source, const Tensor& source_lengths) const override;

  static void fields(auto&& visit) {
    visit("embedding", &Rnn::embedding);
    visit("output_bias", &Rnn::output_bias);
    visit("encoder", &Rnn::encoder);
    visit("decoder", &Rnn::decoder);
    visit("bridges", &Rnn::bridges);
    visit("additive", &Rnn::additive);
    visit("multiplicative", &Rnn::multiplicative);
    visit("readout", &Rnn::readout);
  }
};

}  // namespace attend
