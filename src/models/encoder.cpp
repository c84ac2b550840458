#include "attend/models/encoder.h"

#include "attend/nn/init.h"
#include "attend/ops/activation.h"
#include "attend/ops/arithmetic.h"
#include "attend/ops/embedding.h"
#include "attend/ops/padding.h"
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
                               .ffn_dim = config.ffn_dim > 0 ? config.ffn_dim : 4 * config.dim,
                               .activation = config.activation,
                               .norm_first = config.norm_first,
                               .dropout = config.dropout,
                               .eps = config.eps};
  set_positions(layer, config.positions);
  return {.layer = layer, .layers = config.layers, .final_norm = config.norm_first};
}

Linear small_linear(int64_t in, int64_t out, Rng& rng) {
  return {.weight = normal_parameter({out, in}, kDeviation, rng), .bias = constant_parameter({out}, 0)};
}

/// The mean over the tokens that are not padding: [batch, dim].
Tensor mean_vector(const Tensor& x, const Tensor& lengths) {
  if (!lengths) return mean(x, 1);
  if (lengths.device() != kCpu) {  // nothing is read back from the device
    const TensorOptions kind{x.dtype(), x.device()};
    const Tensor counts = sum(zero_padding(ones({x.dim(0), x.dim(1), 1}, kind), lengths), 1);
    return sum(zero_padding(x, lengths), 1) * divide(ones({x.dim(0), 1}, kind), counts);
  }
  std::vector<float> shares;
  for (const int64_t length : lengths.to_vector<int64_t>()) shares.push_back(1.0f / static_cast<float>(length));
  return sum(zero_padding(x, lengths), 1) * on_device(tensor<float>(shares, {x.dim(0), 1}), x.device());
}

/// The tokens of a padded batch without the padding.
struct Packed {
  std::vector<int64_t> places;     // index of each token in the padded batch
  std::vector<int64_t> positions;  // position of each token in its text
  std::vector<int64_t> offsets;    // start of each text, then the end of the last text
  std::vector<int64_t> slots;      // for each place of the padded batch, the index of its packed token; any for padding

  Packed(const Tensor& lengths, int64_t longest) : offsets{0} {
    for (const int64_t length : lengths.to_vector<int64_t>()) {
      const int64_t first = offsets.back(), row = std::ssize(offsets) - 1;
      for (int64_t i = 0; i < length; ++i) places.push_back(row * longest + i), positions.push_back(i);
      for (int64_t i = 0; i < longest; ++i) slots.push_back(i < length ? first + i : 0);
      offsets.push_back(first + length);
    }
  }
  int64_t tokens() const { return offsets.back(); }
};

Tensor indices(const std::vector<int64_t>& values) { return tensor<int64_t>(values, {std::ssize(values)}); }

/// A batch of tokens from texts of at most `longest` tokens. `positions` is empty if the positions are 0, 1, 2, …
struct EncoderTokens {
  Tensor ids, types, positions;
  int64_t longest = 0;
};

/// The input of the first layer: token, position and type embeddings, added and normed.
Tensor embed(const Encoder& model, const EncoderTokens& tokens, const ForwardPass& pass) {
  const auto& [ids, types, positions, longest] = tokens;
  const Tensor table = position_rows(model.positions, model.waves, longest);
  Tensor x = pass.show("tokens", model.embedding.forward(ids));
  if (model.types) {
    const Tensor type = model.types->forward(types ? types : indices({0}));
    if (pass.observer) pass.show("types", zeros(x.shape(), {x.dtype(), x.device()}) + type);
    x = x + type;
  }
  show_positions(x, table, pass);
  x = table && positions ? x + embedding(positions, on_device(table, x.device())) : add_positions(x, table);
  return pass.show("embedded", model.embedding_norm.forward(pass.show("summed", x)));
}

/// hidden() of a padded batch, computed only for the tokens that are not padding. They are packed into one sequence, in
/// which each text attends only to itself.
Tensor hidden_packed(const Encoder& model, const TextInputs& inputs, const ForwardPass& pass) {
  const int64_t rows = inputs.ids.dim(0), longest = inputs.ids.dim(1);
  const Packed packed(inputs.lengths, longest);
  if (packed.tokens() == 0) return zeros({rows, longest, model.settings.dim}, {.device = model.device()});
  const auto pick = [&](const Tensor& ids) {
    const std::vector<int64_t> all = ids.to_vector<int64_t>();
    std::vector<int64_t> real;
    for (const int64_t place : packed.places) real.push_back(all[static_cast<size_t>(place)]);
    return unsqueeze(indices(real), 0);
  };
  const Tensor positions = indices(packed.positions);
  const EncoderTokens tokens{.ids = pick(inputs.ids),
                             .types = inputs.types ? pick(inputs.types) : Tensor{},
                             .positions = positions,
                             .longest = longest};
  const Tensor x = embed(model, tokens, pass);
  const Tensor y = model.layers.forward(x, {.offsets = indices(packed.offsets), .positions = positions},
                                        pass);  // [1, tokens, dim]
  const Tensor padded = embedding(indices(packed.slots), select(y, 0, 0));
  return zero_padding(reshape(padded, {rows, longest, model.settings.dim}), inputs.lengths);
}

}  // namespace

std::unique_ptr<Encoder> Encoder::create(const EncoderConfig& config, Rng& rng) {
  require<ShapeError>(config.labels.size() != 1 || config.scores != LabelScores::shares,
                      "encoder: a classifier needs at least two labels, got one");
  require<ShapeError>(config.layers >= 1, "encoder: layers must be at least 1, got ", config.layers);
  auto model = std::make_unique<Encoder>();
  model->settings = config;
  const TransformerStackConfig stack = layers_of(config);
  model->embedding = Embedding::create({.rows = config.vocab_size, .dim = config.dim, .deviation = kDeviation}, rng);
  if (config.positions == Positions::learned) {
    model->positions = LearnedPositions::create({.length = config.context, .dim = config.dim}, rng);
  }
  if (config.positions == Positions::sinusoidal) model->waves = WaveTable(config.dim);
  if (config.types > 0) {
    model->types = Embedding::create({.rows = config.types, .dim = config.dim, .deviation = kDeviation}, rng);
  }
  model->embedding_norm = create_norm(stack.layer);
  model->layers = TransformerEncoder::create(stack, rng);
  draw_normal(model->layers, kDeviation, 0, rng);
  if (config.pooler != Pooler::none) model->pooler = small_linear(config.dim, config.dim, rng);
  if (config.masked) {
    model->masked_dense = small_linear(config.dim, config.dim, rng);
    model->masked_norm = create_norm(stack.layer);
    model->masked_bias = constant_parameter({config.vocab_size}, 0);
    if (!config.tied) model->masked_output = normal_parameter({config.vocab_size, config.dim}, kDeviation, rng);
  }
  const auto labels = static_cast<int64_t>(config.labels.size());
  if (labels > 0) model->classifier = small_linear(config.dim, labels, rng);
  return model;
}

std::string Encoder::config() const { return config_text(architecture(), settings); }

std::vector<Tensor*> Encoder::matrices() {
  std::vector<Tensor*> all = matrices_of(*this);
  if (masked_output) all.push_back(&masked_output);
  return all;
}

Tensor Encoder::hidden(const TextInputs& inputs, const ForwardPass& pass) const {
  check_length("encoder", inputs.ids.dim(1), settings.context);
  const bool is_plain = !pass.rng && !pass.observer;  // observers and training need the padded batch
  if (inputs.lengths && is_plain) return hidden_packed(*this, inputs, pass);
  const Tensor x =
      embed(*this, {.ids = inputs.ids, .types = inputs.types, .positions = {}, .longest = inputs.ids.dim(1)}, pass);
  const ObservedPart part(pass.observer, "stack");
  return layers.forward(drop(x, settings.dropout, pass), {.lengths = inputs.lengths}, pass);
}

Tensor Encoder::pooled(const TextInputs& inputs, const ForwardPass& pass) const {
  const Tensor x = hidden(inputs, pass);
  const Tensor vector = settings.pooling == Pooling::mean ? mean_vector(x, inputs.lengths) : select(x, 1, 0);
  if (pass.observer) pass.show("text", unsqueeze(vector, 1));
  if (!pooler) return vector;
  const Tensor dense = pooler->forward(vector), result = settings.pooler == Pooler::tanh ? tanh(dense) : relu(dense);
  if (pass.observer) pass.show("pooled", unsqueeze(result, 1));
  return result;
}

Tensor Encoder::classify(const TextInputs& inputs, const ForwardPass& pass) const {
  require<Error>(classifier.has_value(), "encoder: the model has no labels and cannot classify");
  return classifier->forward(drop(pooled(inputs, pass), settings.dropout, pass));
}

Tensor Encoder::masked_hidden(const TextInputs& inputs, const ForwardPass& pass) const {
  require<Error>(settings.masked, "encoder: this model has no layers for masked words");
  const Activation activation = settings.masked_gelu ? Activation::gelu : settings.activation;
  const Tensor transformed =
      pass.show("transformed", activate(activation, masked_dense->forward(hidden(inputs, pass))));
  return pass.show("readout", masked_norm->forward(transformed));
}

Head Encoder::masked_head() const {
  require<Error>(settings.masked, "encoder: this model has no layers for masked words");
  return {masked_output ? masked_output : embedding.weight, masked_bias};
}

std::vector<NamedTensor> Encoder::parameters() const { return named_parameters(*this); }
void Encoder::visit_parameters(const ParameterVisitor& visit) { for_each_parameter(*this, "", visit); }

}  // namespace attend
