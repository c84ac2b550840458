#include "attend/models/gpt.h"

#include <algorithm>
#include <cmath>

#include "attend/autograd/autograd.h"
#include "attend/nn/init.h"
#include "attend/ops/arithmetic.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"
#include "models/position_table.h"
#include "models/rope_settings.h"
#include "models/settings_json.h"
#include "models/step_graph.h"
#include "nn/generation_step.h"
#include "ops/context_part.h"
#include "ops/generation.h"

namespace attend {
namespace {

TransformerLayerConfig layer_of(const GptConfig& config) {
  TransformerLayerConfig layer{.dim = config.dim,
                               .heads = config.heads,
                               .ffn_dim = config.ffn_dim > 0 ? config.ffn_dim : 4 * config.dim,
                               .activation = config.activation,
                               .gated = config.gated,
                               .norm_first = true,
                               .bias = config.bias,
                               .qk_norm = config.qk_norm,
                               .dropout = config.dropout,
                               .eps = config.eps,
                               .rms_norm = config.rms_norm,
                               .key_heads = config.key_heads,
                               .head_dim = config.head_dim,
                               .window = config.window};
  set_positions(layer, config.positions);
  if (layer.rope) layer.rope = rope_of(config);
  if (config.attention_bias != AttentionBias::as_others) {
    layer.input_bias = config.attention_bias != AttentionBias::none;
    layer.output_bias = config.attention_bias == AttentionBias::all;
  }
  return layer;
}

/// Sets the options that differ between layers: the attention window and the scale of the scores.
void set_layer(TransformerLayerConfig& layer, const GptConfig& config, int64_t index) {
  if (!config.layer_kinds.empty() && config.layer_kinds[static_cast<size_t>(index)] == "full") layer.window = 0;
  const double width = static_cast<double>(config.head_dim > 0 ? config.head_dim : config.dim / config.heads);
  const double scale = config.attention_scale > 0 ? config.attention_scale : 1 / std::sqrt(width);
  if (config.attention_scale > 0) layer.scale = scale;
  if (config.scale_by_layer) layer.scale = scale / static_cast<double>(index + 1);
}

void check(const GptConfig& config) {
  require<ShapeError>(config.layers >= 1, "gpt: layers must be at least 1, got ", config.layers);
  require<ShapeError>(config.heads >= 1, "gpt: heads must be at least 1, got ", config.heads);
  require<ShapeError>(config.layer_kinds.empty() || std::ssize(config.layer_kinds) == config.layers,
                      "gpt: layer_kinds has ", config.layer_kinds.size(), " entries for ", config.layers, " layers");
  for (const std::string& kind : config.layer_kinds) {
    require<ShapeError>(kind == "full" || kind == "window", "gpt: layer_kinds must be full or window, got ", kind);
  }
}

Tensor embed(const Gpt& model, const Tensor& ids, const ForwardPass& pass, const CacheStep* step = nullptr) {
  const Tensor x = pass.show("tokens", model.embedding.forward(ids));
  const int64_t length = pass.context ? pass.context->length() : step ? step->longest() : ids.dim(1);
  const Tensor table = position_rows(model.positions, model.waves, length);
  if (!step) show_positions(x, table, pass);
  const Tensor placed = pass.context ? add_positions(x, table, *pass.context) : add_positions(x, table, step);
  return drop(pass.show("embedded", placed), model.settings.dropout, pass);
}

class GptDecoding final : public Decoding {
 public:
  explicit GptDecoding(const Gpt& model) : model_(model), caches_(model.layers.layers.size()) {}

  void set_cache_type(DType dtype) override { step_.requested_type = dtype; }

  Tensor step(const Tensor& ids, const Tensor& lengths, const ForwardPass& pass) override {
    const NoGrad scope;
    if (step_.held.empty()) step_.held.assign(static_cast<size_t>(ids.dim(0)), 0);
    step_.count = ids.dim(1);
    if (!lengths && can_fuse(pass)) return fused_step(ids);
    forget_graph();
    step_.choose_cache_type(model_.layers.layers[0].attention.key.weight);
    require<ShapeError>(!lengths || step_.longest() == step_.count, "gpt: lengths are allowed only in the first step");
    check_length("gpt", step_.longest(), model_.settings.context);
    Tensor y = embed(model_, ids, pass, &step_);
    const ObservedPart stack(pass.observer, "stack");
    for (size_t i = 0; i < caches_.size(); ++i) {
      const ObservedPart part(pass.observer, "layers", i);
      y = model_.layers.layers[i].forward_cached(y, caches_[i], step_, pass);
    }
    const std::vector<int64_t> real =
        lengths ? lengths.to_vector<int64_t>() : std::vector<int64_t>(step_.held.size(), step_.count);
    for (size_t i = 0; i < real.size(); ++i) step_.held[i] += real[i];
    history_.append(real);
    return model_.head().logits(model_.layers.norm->forward(last_rows(y, real)));
  }

  void select(std::span<const int64_t> order) override {
    const RowMoves moves = history_.select(order);
    for (KeyValueCache& cache : caches_) cache.move(moves);
    if (!moves.is_in_place) forget_graph();
    std::vector<int64_t> held;
    for (const int64_t row : order) held.push_back(step_.held[static_cast<size_t>(row)]);
    step_.held = std::move(held);
  }

  void spread(int64_t rows) override { select(repeated_rows(std::ssize(step_.held), rows)); }

  void join(Decoding& other) override {
    const auto& rows = dynamic_cast<const GptDecoding&>(other);
    forget_graph();
    for (size_t i = 0; i < caches_.size(); ++i) caches_[i].join(rows.caches_[i]);
    step_.held.insert(step_.held.end(), rows.step_.held.begin(), rows.step_.held.end());
    history_.join(rows.history_);
  }

 private:
  /// Whether a step of one token per row can run by nn/generation_step.h: on a GPU, after the first step.
  bool can_fuse(const ForwardPass& pass) const {
    return step_.count == 1 && caches_[0].capacity() > 0 && caches_[0].all().keys.device() != kCpu &&
           pass.observer == nullptr && pass.rng == nullptr;
  }

  /// The next step has other shapes or addresses.
  void forget_graph() {
    step_.numbers = {};
    graph_.forget();
  }

  Tensor fused_step(const Tensor& ids) {
    const int64_t longest = step_.longest();
    check_length("gpt", longest, model_.settings.context);
    if (longest > caches_[0].capacity()) {
      for (KeyValueCache& cache : caches_) cache.reserve(longest);
      graph_.forget();
    }
    const Device device = model_.embedding.weight.device();
    step_.set_numbers(checked_ids(ids, model_.vocab_size()), caches_[0].capacity(), device);
    const Tensor table = position_rows(model_.positions, model_.waves, caches_[0].capacity());
    const Tensor logits = graph_.run(device, [&](const Tensor& target) { return fused_logits(table, target); });
    const std::vector<int64_t> counts(step_.held.size(), 1);
    for (int64_t& held : step_.held) ++held;
    history_.append(counts);
    return logits;
  }

  /// All kernels of a fused step. They depend on the shapes and on the caches' addresses, not on numbers of the host.
  Tensor fused_logits(const Tensor& table, const Tensor& target) {
    const Tensor& tokens = model_.embedding.weight;
    Tensor x = embed_step(step_.device_ids(), tokens, step_.device_positions(),
                          table ? on_device(table, tokens.device()) : table);
    x = reshape(x, {x.dim(0), 1, x.dim(1)});
    for (size_t i = 0; i < caches_.size(); ++i) {
      x = model_.layers.layers[i].forward_cached(x, caches_[i], step_, {});
    }
    const Head head = model_.head();
    return step_logits(x, &*model_.layers.norm, {head.weight, head.bias}, target);
  }

  /// The vector of each row's last token that is not padding: [rows, dim].
  static Tensor last_rows(const Tensor& y, const std::vector<int64_t>& real) {
    std::vector<int64_t> places;
    for (size_t i = 0; i < real.size(); ++i) places.push_back(static_cast<int64_t>(i) * y.dim(1) + real[i] - 1);
    return select_rows(reshape(y, {-1, y.dim(2)}), places);
  }

  const Gpt& model_;
  std::vector<KeyValueCache> caches_;
  CacheStep step_;
  RowHistory history_;
  StepGraph graph_;
};

}  // namespace

std::unique_ptr<Gpt> Gpt::create(const GptConfig& config, Rng& rng) {
  check(config);
  auto model = std::make_unique<Gpt>();
  model->settings = config;
  model->embedding = Embedding::create({.rows = config.vocab_size, .dim = config.dim, .deviation = 0.02}, rng);
  if (config.positions == Positions::learned) {
    model->positions = LearnedPositions::create({.length = config.context, .dim = config.dim}, rng);
  }
  if (config.positions == Positions::sinusoidal) model->waves = WaveTable(config.dim);
  for (int64_t i = 0; i < config.layers; ++i) {
    TransformerLayerConfig layer = layer_of(config);
    set_layer(layer, config, i);
    model->layers.layers.push_back(TransformerEncoderLayer::create(layer, rng));
  }
  model->layers.norm = create_norm(layer_of(config));
  draw_normal(model->layers, 0.02, config.layers, rng);
  if (!config.tied)
    model->output = Linear{.weight = normal_parameter({config.vocab_size, config.dim}, 0.02, rng), .bias = {}};
  if (config.output_bias) model->output_bias = constant_parameter({config.vocab_size}, 0);
  return model;
}

std::string Gpt::config() const { return config_text(architecture(), settings); }

Tensor Gpt::hidden(const Tensor& ids, const ForwardPass& pass) const {
  check_length("gpt", pass.context ? pass.context->length() : ids.dim(1), settings.context);
  const Tensor x = embed(*this, ids, pass);
  const ObservedPart part(pass.observer, "stack");
  MaskOptions masks{.causal = true};
  if (pass.context) masks.positions = pass.context->positions();
  return layers.forward(x, masks, pass);
}

std::unique_ptr<Decoding> Gpt::start() const { return std::make_unique<GptDecoding>(*this); }

std::vector<NamedTensor> Gpt::parameters() const { return named_parameters(*this); }
void Gpt::visit_parameters(const ParameterVisitor& visit) { for_each_parameter(*this, "", visit); }
std::vector<Tensor*> Gpt::matrices() { return matrices_of(*this); }

}  // namespace attend
