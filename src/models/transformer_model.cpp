#include "attend/models/transformer_model.h"

#include <cmath>
#include <ranges>

#include "attend/autograd/autograd.h"
#include "attend/nn/init.h"
#include "attend/ops/arithmetic.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"
#include "models/position_table.h"
#include "models/settings_json.h"
#include "models/step_graph.h"
#include "nn/generation_step.h"
#include "ops/generation.h"

namespace attend {
namespace {

TransformerConfig layers_of(const TransformerModelConfig& config) {
  TransformerLayerConfig layer{.dim = config.dim,
                               .heads = config.heads,
                               .ffn_dim = config.ffn_dim,
                               .activation = config.activation,
                               .gated = config.gated,
                               .norm_first = config.norm_first,
                               .bias = config.bias,
                               .dropout = config.dropout,
                               .eps = config.eps,
                               .rms_norm = config.rms_norm,
                               .key_heads = config.key_heads,
                               .head_dim = config.head_dim};
  if (config.positions != Positions::relative) set_positions(layer, config.positions);
  if (!config.scale_scores) layer.scale = 1;
  TransformerLayerConfig decoder_layer = layer;
  if (config.decoder_heads > 0) decoder_layer.heads = config.decoder_heads;
  if (config.decoder_ffn_dim > 0) decoder_layer.ffn_dim = config.decoder_ffn_dim;
  return {.layer = layer,
          .decoder_layer = decoder_layer,
          .encoder_layers = config.encoder_layers,
          .decoder_layers = config.decoder_layers,
          .final_norms = config.norm_first};
}

/// The layers that turn the ids of the source or the target into vectors.
struct Side {
  const Embedding& embedding;
  const std::optional<LearnedPositions>& positions;
  const std::optional<Norm>& norm;
};
Side source_side(const TransformerModel& m) { return {m.embedding, m.source_positions, m.source_norm}; }
Side target_side(const TransformerModel& m) {
  return {m.target_embedding ? *m.target_embedding : m.embedding, m.target_positions, m.target_norm};
}

Tensor embed(const TransformerModel& model, const Side& side, const Tensor& ids, const ForwardPass& pass,
             const CacheStep* step = nullptr) {
  Tensor x = pass.show("tokens", side.embedding.forward(ids));
  if (model.settings.scale_embedding) {
    x = pass.show("scaled", x * std::sqrt(static_cast<double>(model.settings.dim)));
  }
  const Tensor table = position_rows(side.positions, model.waves, step ? step->longest() : ids.dim(1));
  if (!step) show_positions(x, table, pass);
  x = add_positions(x, table, step);
  if (side.norm) x = side.norm->forward(pass.show("summed", x));
  return drop(pass.show("embedded", x), model.settings.dropout, pass);
}

/// The input of the head. T5, whose output layer is tied to the embedding, scales it here.
Tensor head_input(const TransformerModel& model, const Tensor& y) {
  return model.settings.scale_output ? y * (1 / std::sqrt(static_cast<double>(model.settings.dim))) : y;
}

Tensor distance_bias(const std::optional<RelativeBias>& distances, int64_t length) {
  return distances ? distances->forward({.queries = length, .keys = length}) : Tensor{};
}

class TransformerDecoding final : public Decoding {
 public:
  TransformerDecoding(const TransformerModel& model, const Tensor& source, const Tensor& source_lengths)
      : model_(model), memory_lengths_(source_lengths) {
    const Tensor memory = model.encode(source, source_lengths);
    for (const TransformerDecoderLayer& layer : model.decoder.layers) {
      caches_.push_back({.memory = layer.cross_attention.project_memory(memory)});
    }
    step_.held.assign(static_cast<size_t>(source.dim(0)), 0);
  }

  void set_cache_type(DType dtype) override { step_.requested_type = dtype; }

  Tensor step(const Tensor& ids, const Tensor& lengths, const ForwardPass& pass) override {
    const NoGrad scope;
    require<ShapeError>(!lengths, "transformer: all rows of a target must have the same length");
    step_.count = ids.dim(1);
    check_length("transformer", step_.longest(), model_.settings.context);
    if (can_fuse(pass)) return fused_step(ids);
    forget_graph();
    step_.choose_cache_type(model_.decoder.layers[0].attention.key.weight);
    const ObservedPart stack(pass.observer, "decoder");
    step_.bias = step_bias();
    Tensor y = embed(model_, target_side(model_), ids, pass, &step_);
    for (size_t i = 0; i < caches_.size(); ++i) {
      const ObservedPart part(pass.observer, "layers", i);
      y = model_.decoder.layers[i].forward_cached(y, caches_[i], step_, {.lengths = memory_lengths_}, pass);
    }
    for (int64_t& held : step_.held) held += step_.count;
    history_.append(std::vector<int64_t>(step_.held.size(), step_.count));
    y = select_last(y);
    if (model_.decoder.norm) y = model_.decoder.norm->forward(y);
    return model_.head().logits(head_input(model_, y));
  }

  void select(std::span<const int64_t> order) override {
    std::vector<int64_t> sentences;
    for (size_t i = 0; i < order.size(); i += static_cast<size_t>(rows_)) sentences.push_back(order[i] / rows_);
    const bool moved = static_cast<int64_t>(sentences.size()) != caches_[0].memory.keys.dim(0) ||
                       !std::ranges::equal(sentences, std::views::iota(int64_t{0}, std::ssize(sentences)));
    move_rows(order);
    if (!moved) return;
    forget_graph();
    for (DecoderCache& cache : caches_) {
      cache.memory = {select_rows(cache.memory.keys, sentences), select_rows(cache.memory.values, sentences)};
    }
    if (memory_lengths_) memory_lengths_ = select_rows(memory_lengths_, sentences);
  }

  void spread(int64_t rows) override {
    move_rows(repeated_rows(std::ssize(step_.held), rows));
    rows_ *= rows;
  }

  void join(Decoding& other) override {
    auto& rows = dynamic_cast<TransformerDecoding&>(other);
    forget_graph();
    require<ShapeError>(rows.rows_ == rows_, "transformer: decodings of ", rows_, " and ", rows.rows_,
                        " rows per sentence cannot be joined");
    memory_lengths_ = join_rows(real_lengths(), rows.real_lengths());
    for (size_t i = 0; i < caches_.size(); ++i) {
      KeyValues &own = caches_[i].memory, &added = rows.caches_[i].memory;
      own = {join_rows(own.keys, added.keys, 2), join_rows(own.values, added.values, 2)};
      caches_[i].own.join(rows.caches_[i].own);
    }
    step_.held.insert(step_.held.end(), rows.step_.held.begin(), rows.step_.held.end());
    history_.join(rows.history_);
  }

 private:
  /// Reorders the rows of the target.
  void move_rows(std::span<const int64_t> order) {
    std::vector<int64_t> held;
    for (const int64_t row : order) held.push_back(step_.held[static_cast<size_t>(row)]);
    step_.held = std::move(held);
    const RowMoves moves = history_.select(order);
    for (DecoderCache& cache : caches_) cache.own.move(moves);
    if (!moves.is_in_place) forget_graph();
  }

  /// Whether a step of one token per row can run by nn/generation_step.h: on a GPU, after the first step.
  bool can_fuse(const ForwardPass& pass) const {
    const KeyValueCache& cache = caches_[0].own;
    return step_.count == 1 && cache.capacity() > 0 && cache.all().keys.device() != kCpu && !model_.target_distances &&
           pass.observer == nullptr && pass.rng == nullptr;
  }
  /// The next step has other shapes or addresses.
  void forget_graph() {
    step_.numbers = {};
    graph_.forget();
  }

  Tensor fused_step(const Tensor& ids) {
    const int64_t longest = step_.longest(), words = target_side(model_).embedding.weight.dim(0);
    if (longest > caches_[0].own.capacity()) {
      for (DecoderCache& cache : caches_) cache.own.reserve(longest);
      graph_.forget();
    }
    const Device device = model_.embedding.weight.device();
    const int64_t capacity = caches_[0].own.capacity();
    step_.bias = {};
    step_.set_numbers(checked_ids(ids, words), capacity, device);
    const Tensor table = position_rows(model_.target_positions, model_.waves, capacity);
    const Tensor logits = graph_.run(device, [&](const Tensor& target) { return fused_logits(table, target); });
    for (int64_t& held : step_.held) ++held;
    history_.append(std::vector<int64_t>(step_.held.size(), 1));
    return logits;
  }

  /// All kernels of a fused step. They depend on the shapes and on the caches' addresses, not on numbers of the host.
  Tensor fused_logits(const Tensor& table, const Tensor& target) {
    const Side side = target_side(model_);
    Tensor x = embedding_unchecked(step_.device_ids(), side.embedding.weight);
    if (model_.settings.scale_embedding) x = x * std::sqrt(static_cast<double>(model_.settings.dim));
    if (table) x = x + embedding_unchecked(step_.device_positions(), on_device(table, x.device()));
    if (side.norm) x = side.norm->forward(x);
    x = reshape(x, {x.dim(0), 1, x.dim(1)});
    for (size_t i = 0; i < caches_.size(); ++i) {
      x = model_.decoder.layers[i].forward_cached(x, caches_[i], step_, {.lengths = memory_lengths_}, {});
    }
    const Head head = model_.head();
    const Norm* norm = model_.decoder.norm ? &*model_.decoder.norm : nullptr;
    if (!model_.settings.scale_output) return step_logits(x, norm, {head.weight, head.bias}, target);
    if (norm != nullptr) x = norm->forward(x);
    return step_logits(head_input(model_, x), nullptr, {head.weight, head.bias}, target);
  }

  /// The lengths of the sources, also where no padding made them necessary: i64 [sentences].
  Tensor real_lengths() const {
    const Tensor& keys = caches_[0].memory.keys;
    return memory_lengths_ ? memory_lengths_
                           : full({keys.dim(0)}, static_cast<double>(keys.dim(2)), {DType::i64, kCpu});
  }
  static Tensor select_last(const Tensor& y) { return attend::select(y, 1, y.dim(1) - 1); }

  /// The relative bias of one new token: the end of a row for the distances …, −2, −1, 0 that all steps share.
  Tensor step_bias() {
    if (!model_.target_distances) return {};
    const int64_t longest = step_.longest(), held = longest - step_.count;
    if (step_.count > 1) {
      return model_.target_distances->forward({.queries = step_.count, .keys = longest, .first = held});
    }
    if (!distance_row_ || distance_row_.dim(3) < longest) {
      const int64_t room = std::max<int64_t>(2 * longest, 32);
      distance_row_ = model_.target_distances->forward({.queries = 1, .keys = room, .first = room - 1});
    }
    const int64_t room = distance_row_.dim(3);
    if (step_.is_even()) return slice(distance_row_, 3, room - longest, room);
    const Tensor result = zeros({std::ssize(step_.held), distance_row_.dim(1), 1, longest},  // 0 past a row's end
                                {.device = distance_row_.device()});
    for (int64_t row = 0; row < result.dim(0); ++row) {
      const int64_t keys = step_.held[static_cast<size_t>(row)] + 1;
      copy_values(slice(distance_row_, 3, room - keys, room), slice(slice(result, 0, row, row + 1), 3, 0, keys));
    }
    return result;
  }

  const TransformerModel& model_;
  int64_t rows_ = 1;  // rows per sentence
  Tensor memory_lengths_;
  std::vector<DecoderCache> caches_;
  CacheStep step_;
  RowHistory history_;
  StepGraph graph_;
  Tensor distance_row_;  // [1, heads, 1, capacity]
};

}  // namespace

std::unique_ptr<TransformerModel> TransformerModel::create(const TransformerModelConfig& config, Rng& rng) {
  require<ShapeError>(config.encoder_layers >= 1 && config.decoder_layers >= 1,
                      "transformer: encoder_layers and decoder_layers must be at least 1, got ", config.encoder_layers,
                      " and ", config.decoder_layers);
  auto model = std::make_unique<TransformerModel>();
  model->settings = config;
  const TransformerConfig stacks_config = layers_of(config);
  const double deviation = 1 / std::sqrt(static_cast<double>(config.dim));  // gives logits a deviation of about 1
  const EmbeddingConfig table{
      .rows = config.vocab_size, .dim = config.dim, .deviation = config.scale_output ? 1 : deviation};
  model->embedding = Embedding::create(table, rng);
  if (!config.shared) model->target_embedding = Embedding::create(table, rng);
  if (config.positions == Positions::learned) {
    model->source_positions = LearnedPositions::create({.length = config.context, .dim = config.dim}, rng);
    model->target_positions = LearnedPositions::create({.length = config.context, .dim = config.dim}, rng);
  }
  if (config.positions == Positions::sinusoidal) model->waves = WaveTable(config.dim, config.wave_halves);
  if (config.positions == Positions::relative) {
    RelativeBiasConfig distances{.heads = config.heads, .buckets = config.buckets, .max_distance = config.max_distance};
    model->source_distances = RelativeBias::create(distances, rng);
    distances.heads = stacks_config.decoder_layer->heads;
    distances.looks_both_ways = false;
    model->target_distances = RelativeBias::create(distances, rng);
  }
  if (config.embedding_norm) {
    model->source_norm = create_norm(stacks_config.layer);
    model->target_norm = create_norm(stacks_config.layer);
  }
  Transformer stacks = Transformer::create(stacks_config, rng);
  model->encoder = std::move(stacks.encoder);
  model->decoder = std::move(stacks.decoder);
  if (!config.tied) model->output_weight = normal_parameter({config.vocab_size, config.dim}, deviation, rng);
  if (config.output_bias) model->output_bias = constant_parameter({config.vocab_size}, 0);
  return model;
}

std::vector<Tensor*> TransformerModel::matrices() {
  std::vector<Tensor*> all = matrices_of(*this);
  if (output_weight) all.push_back(&output_weight);
  return all;
}

Head TransformerModel::head() const {
  if (output_weight) return {output_weight, output_bias};
  return {target_embedding ? target_embedding->weight : embedding.weight, output_bias};
}

std::string TransformerModel::config() const { return config_text(architecture(), settings); }

Tensor TransformerModel::encode(const Tensor& source, const Tensor& source_lengths, const ForwardPass& pass) const {
  check_length("transformer", source.dim(1), settings.context);
  const ObservedPart part(pass.observer, "encoder");
  const Tensor x = embed(*this, source_side(*this), source, pass);
  return encoder.forward(x, {.lengths = source_lengths, .bias = distance_bias(source_distances, source.dim(1))}, pass);
}

Tensor TransformerModel::hidden(const PairInputs& inputs, const ForwardPass& pass) const {
  check_length("transformer", inputs.target.dim(1), settings.context);
  const Tensor memory = encode(inputs.source, inputs.source_lengths, pass);
  const ObservedPart part(pass.observer, "decoder");
  const Tensor y =
      decoder.forward(embed(*this, target_side(*this), inputs.target, pass), memory,
                      {.target = {.causal = true, .bias = distance_bias(target_distances, inputs.target.dim(1))},
                       .memory = {.lengths = inputs.source_lengths}},
                      pass);
  return head_input(*this, y);
}

std::vector<Tensor> TransformerModel::cross_weights(const std::vector<AttentionTrace>& traces) const {
  std::vector<Tensor> result;
  for (const AttentionTrace& trace : traces) {
    if (trace.path.ends_with("cross_attention")) result.push_back(trace.weights().values);
  }
  return result;
}

std::unique_ptr<Decoding> TransformerModel::start(const Tensor& source, const Tensor& source_lengths) const {
  const NoGrad scope;
  return std::make_unique<TransformerDecoding>(*this, source, source_lengths);
}

std::vector<NamedTensor> TransformerModel::parameters() const { return named_parameters(*this); }
void TransformerModel::visit_parameters(const ParameterVisitor& visit) { for_each_parameter(*this, "", visit); }

}  // namespace attend
