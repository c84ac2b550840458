#include "attend/models/transformer_model.h"

#include <cmath>

#include "attend/autograd/autograd.h"
#include "attend/ops/arithmetic.h"
#include "attend/ops/position.h"
#include "attend/ops/shape.h"
#include "models/position_table.h"
#include "models/settings_json.h"

namespace attend {
namespace {

TransformerConfig layers_of(const TransformerModelConfig& config) {
  TransformerLayerConfig layer{.dim = config.dim,
                               .heads = config.heads,
                               .hidden = config.hidden,
                               .activation = config.activation,
                               .gated = config.gated,
                               .norm_first = config.norm_first,
                               .dropout = config.dropout,
                               .rms_norm = config.rms_norm,
                               .key_heads = config.key_heads};
  set_positions(layer, config.positions);
  return {.layer = layer,
          .encoder_layers = config.encoder_layers,
          .decoder_layers = config.decoder_layers,
          .final_norms = config.norm_first};
}

Tensor embed(const TransformerModel& model, const Tensor& ids, const Tensor& table, const ForwardContext& context,
             const CacheStep* step = nullptr) {
  const Tensor x =
      context.show("tokens", model.embedding.forward(ids) * std::sqrt(static_cast<double>(model.settings.dim)));
  return drop(context.show("embedded", add_positions(x, table, step)), model.settings.dropout, context);
}

const Tensor& source_table(const TransformerModel& m) {
  return m.source_positions ? m.source_positions->weight : m.waves;
}
const Tensor& target_table(const TransformerModel& m) {
  return m.target_positions ? m.target_positions->weight : m.waves;
}

class TransformerDecoding final : public Decoding {
 public:
  TransformerDecoding(const TransformerModel& model, const Tensor& source, const Tensor& source_lengths, int64_t rows)
      : model_(model), rows_(rows), memory_lengths_(source_lengths) {
    const Tensor memory = model.encode(source, source_lengths);
    for (const TransformerDecoderLayer& layer : model.decoder.layers) {
      caches_.push_back({.memory = layer.cross_attention.project_memory(memory)});
    }
    step_.held.assign(static_cast<size_t>(source.dim(0) * rows), 0);
  }

  Tensor step(const Tensor& ids, const Tensor& lengths, const ForwardContext& context) override {
    const NoGrad scope;
    require<ShapeError>(!lengths, "transformer: all rows of a target grow alike");
    step_.count = ids.dim(1);
    check_length("transformer", step_.longest(), model_.settings.context);
    const ObservedPart stack(context.observer, "decoder");
    Tensor y = embed(model_, ids, target_table(model_), context, &step_);
    for (size_t i = 0; i < caches_.size(); ++i) {
      const ObservedPart part(context.observer, "layers", i);
      y = model_.decoder.layers[i].forward_cached(y, caches_[i], step_, {.lengths = memory_lengths_}, context);
    }
    for (int64_t& held : step_.held) held += step_.count;
    y = select_last(y);
    if (model_.decoder.norm) y = model_.decoder.norm->forward(y);
    return model_.head().logits(y);
  }

  void select(std::span<const int64_t> order) override {
    std::vector<int64_t> sentences;
    for (size_t i = 0; i < order.size(); i += static_cast<size_t>(rows_)) sentences.push_back(order[i] / rows_);
    const bool moved = static_cast<int64_t>(sentences.size()) != caches_[0].memory.keys.dim(0) ||
                       !std::ranges::equal(sentences, std::views::iota(int64_t{0}, std::ssize(sentences)));
    const int64_t held = step_.held[0];
    for (DecoderCache& cache : caches_) {
      cache.own.select(order, held);
      if (moved) {
        cache.memory = {select_rows(cache.memory.keys, sentences), select_rows(cache.memory.values, sentences)};
      }
    }
    if (moved && memory_lengths_) memory_lengths_ = select_rows(memory_lengths_, sentences);
    step_.held.assign(order.size(), held);
  }

 private:
  static Tensor select_last(const Tensor& y) { return attend::select(y, 1, y.dim(1) - 1); }

  const TransformerModel& model_;
  int64_t rows_;  // of each sentence
  Tensor memory_lengths_;
  std::vector<DecoderCache> caches_;
  CacheStep step_;
};

}  // namespace

std::unique_ptr<TransformerModel> TransformerModel::create(const TransformerModelConfig& config, Rng& rng) {
  require<ShapeError>(config.encoder_layers >= 1 && config.decoder_layers >= 1,
                      "transformer: encoder_layers and decoder_layers must be at least 1, got ", config.encoder_layers,
                      " and ", config.decoder_layers);
  auto model = std::make_unique<TransformerModel>();
  model->settings = config;
  model->embedding = Embedding::create(
      {.words = config.words, .dim = config.dim, .deviation = 1 / std::sqrt(static_cast<double>(config.dim))}, rng);
  if (config.positions == Positions::learned) {
    model->source_positions = LearnedPositions::create({.length = config.context, .dim = config.dim}, rng);
    model->target_positions = LearnedPositions::create({.length = config.context, .dim = config.dim}, rng);
  }
  if (config.positions == Positions::sinusoidal) model->waves = sinusoidal_positions(config.context, config.dim);
  Transformer stacks = Transformer::create(layers_of(config), rng);
  model->encoder = std::move(stacks.encoder);
  model->decoder = std::move(stacks.decoder);
  return model;
}

std::string TransformerModel::config() const { return config_text(architecture(), settings); }

Tensor TransformerModel::encode(const Tensor& source, const Tensor& source_lengths,
                                const ForwardContext& context) const {
  check_length("transformer", source.dim(1), settings.context);
  const ObservedPart part(context.observer, "encoder");
  return encoder.forward(embed(*this, source, source_table(*this), context), {.lengths = source_lengths}, context);
}

Tensor TransformerModel::hidden(const PairInputs& inputs, const ForwardContext& context) const {
  check_length("transformer", inputs.target.dim(1), settings.context);
  const Tensor memory = encode(inputs.source, inputs.source_lengths, context);
  const ObservedPart part(context.observer, "decoder");
  return decoder.forward(embed(*this, inputs.target, target_table(*this), context), memory,
                         {.memory = {.lengths = inputs.source_lengths}}, context);
}

std::vector<Tensor> TransformerModel::cross_weights(const std::vector<AttentionTrace>& traces) const {
  std::vector<Tensor> result;
  for (const AttentionTrace& trace : traces) {
    if (trace.path.ends_with("cross_attention")) result.push_back(trace.weights().values);
  }
  return result;
}

std::unique_ptr<Decoding> TransformerModel::start(const Tensor& source, const Tensor& source_lengths,
                                                  int64_t rows) const {
  const NoGrad scope;
  return std::make_unique<TransformerDecoding>(*this, source, source_lengths, rows);
}

}  // namespace attend
