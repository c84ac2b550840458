#include "attend/models/encoder.h"

#include "attend/nn/init.h"
#include "attend/ops/arithmetic.h"
#include "attend/ops/padding.h"
#include "attend/ops/position.h"
#include "attend/ops/reduce.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"
#include "models/position_table.h"
#include "models/settings_json.h"

namespace attend {
namespace {

constexpr double kDeviation = 0.02;

TransformerStackConfig layers_of(const EncoderConfig& config) {
  TransformerLayerConfig layer{.dim = config.dim,
                               .heads = config.heads,
                               .hidden = config.hidden > 0 ? config.hidden : 4 * config.dim,
                               .activation = config.activation,
                               .norm_first = config.norm_first,
                               .dropout = config.dropout};
  set_positions(layer, config.positions);
  return {.layer = layer, .layers = config.layers, .final_norm = config.norm_first};
}

Linear small_linear(int64_t in, int64_t out, Rng& rng) {
  return {.weight = normal_parameter({out, in}, kDeviation, rng), .bias = constant_parameter({out}, 0)};
}

/// The mean over real tokens: [batch, dim].
Tensor mean_vector(const Tensor& x, const Tensor& lengths) {
  if (!lengths) return mean(x, 1);
  std::vector<float> shares;
  for (const int64_t length : lengths.to_vector<int64_t>()) shares.push_back(1.0f / static_cast<float>(length));
  return sum(zero_padding(x, lengths), 1) * tensor<float>(shares, {x.dim(0), 1});
}

}  // namespace

std::unique_ptr<Encoder> Encoder::create(const EncoderConfig& config, Rng& rng) {
  require<ShapeError>(config.labels.size() != 1, "encoder: a classifier needs at least two labels, got one");
  require<ShapeError>(config.layers >= 1, "encoder: layers must be at least 1, got ", config.layers);
  auto model = std::make_unique<Encoder>();
  model->settings = config;
  const TransformerStackConfig stack = layers_of(config);
  model->embedding = Embedding::create({.words = config.words, .dim = config.dim, .deviation = kDeviation}, rng);
  if (config.positions == Positions::learned) {
    model->positions = LearnedPositions::create({.length = config.context, .dim = config.dim}, rng);
  }
  if (config.positions == Positions::sinusoidal) model->waves = sinusoidal_positions(config.context, config.dim);
  model->embedding_norm = create_norm(stack.layer);
  model->layers = TransformerEncoder::create(stack, rng);
  draw_normal(model->layers, kDeviation, 0, rng);
  model->masked_dense = small_linear(config.dim, config.dim, rng);
  model->masked_norm = create_norm(stack.layer);
  model->masked_bias = constant_parameter({config.words}, 0);
  const auto labels = static_cast<int64_t>(config.labels.size());
  if (labels > 0) model->classifier = small_linear(config.dim, labels, rng);
  return model;
}

std::string Encoder::config() const { return config_text(architecture(), settings); }

Tensor Encoder::hidden(const TextInputs& inputs, const ForwardContext& context) const {
  check_length("encoder", inputs.ids.dim(1), settings.context);
  const Tensor table = positions ? positions->weight : waves;
  const Tensor tokens = context.show("tokens", embedding.forward(inputs.ids));
  const Tensor x = context.show("embedded", embedding_norm.forward(add_positions(tokens, table)));
  const ObservedPart part(context.observer, "stack");
  return layers.forward(drop(x, settings.dropout, context), {.lengths = inputs.lengths}, context);
}

Tensor Encoder::classify(const TextInputs& inputs, const ForwardContext& context) const {
  require<Error>(classifier.has_value(), "encoder: this model was trained without labels and cannot classify");
  const Tensor x = hidden(inputs, context);
  const Tensor vector = settings.pooling == Pooling::mean ? mean_vector(x, inputs.lengths) : select(x, 1, 0);
  return classifier->forward(drop(vector, settings.dropout, context));
}

Tensor Encoder::masked_hidden(const TextInputs& inputs, const ForwardContext& context) const {
  return masked_norm.forward(activate(settings.activation, masked_dense.forward(hidden(inputs, context))));
}

}  // namespace attend
