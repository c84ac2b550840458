#include "attend/models/gpt.h"

#include <algorithm>

#include "attend/autograd/autograd.h"
#include "attend/ops/position.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"
#include "models/position_table.h"
#include "models/settings_json.h"

namespace attend {
namespace {

TransformerStackConfig layers_of(const GptConfig& config) {
  TransformerLayerConfig layer{.dim = config.dim,
                               .heads = config.heads,
                               .hidden = config.hidden > 0 ? config.hidden : 4 * config.dim,
                               .activation = config.activation,
                               .gated = config.gated,
                               .norm_first = true,
                               .bias = config.bias,
                               .dropout = config.dropout,
                               .rms_norm = config.rms_norm,
                               .key_heads = config.key_heads};
  set_positions(layer, config.positions);
  return {.layer = layer, .layers = config.layers, .final_norm = true};
}

Tensor embed(const Gpt& model, const Tensor& ids, const ForwardContext& context, const CacheStep* step = nullptr) {
  const Tensor x = context.show("tokens", model.embedding.forward(ids));
  const Tensor& table = model.positions ? model.positions->weight : model.waves;
  return drop(context.show("embedded", add_positions(x, table, step)), model.settings.dropout, context);
}

class GptDecoding final : public Decoding {
 public:
  explicit GptDecoding(const Gpt& model) : model_(model), caches_(model.layers.layers.size()) {}

  Tensor step(const Tensor& ids, const Tensor& lengths, const ForwardContext& context) override {
    const NoGrad scope;
    if (step_.held.empty()) step_.held.assign(static_cast<size_t>(ids.dim(0)), 0);
    step_.count = ids.dim(1);
    require<ShapeError>(!lengths || step_.longest() == step_.count, "gpt: lengths are for the first step only");
    check_length("gpt", step_.longest(), model_.settings.context);
    Tensor y = embed(model_, ids, context, &step_);
    const ObservedPart stack(context.observer, "stack");
    for (size_t i = 0; i < caches_.size(); ++i) {
      const ObservedPart part(context.observer, "layers", i);
      y = model_.layers.layers[i].forward_cached(y, caches_[i], step_, context);
    }
    const std::vector<int64_t> real =
        lengths ? lengths.to_vector<int64_t>() : std::vector<int64_t>(step_.held.size(), step_.count);
    for (size_t i = 0; i < real.size(); ++i) step_.held[i] += real[i];
    return model_.head().logits(model_.layers.norm->forward(last_rows(y, real)));
  }

  void select(std::span<const int64_t> order) override {
    const int64_t longest = *std::ranges::max_element(step_.held);
    for (KeyValueCache& cache : caches_) cache.select(order, longest);
    std::vector<int64_t> held;
    for (const int64_t row : order) held.push_back(step_.held[static_cast<size_t>(row)]);
    step_.held = std::move(held);
  }

 private:
  /// The vector of each row's last real token: [rows, dim].
  static Tensor last_rows(const Tensor& y, const std::vector<int64_t>& real) {
    std::vector<int64_t> places;
    for (size_t i = 0; i < real.size(); ++i) places.push_back(static_cast<int64_t>(i) * y.dim(1) + real[i] - 1);
    return select_rows(reshape(y, {-1, y.dim(2)}), places);
  }

  const Gpt& model_;
  std::vector<KeyValueCache> caches_;
  CacheStep step_;
};

}  // namespace

std::unique_ptr<Gpt> Gpt::create(const GptConfig& config, Rng& rng) {
  require<ShapeError>(config.layers >= 1, "gpt: layers must be at least 1, got ", config.layers);
  auto model = std::make_unique<Gpt>();
  model->settings = config;
  model->embedding = Embedding::create({.words = config.words, .dim = config.dim, .deviation = 0.02}, rng);
  if (config.positions == Positions::learned) {
    model->positions = LearnedPositions::create({.length = config.context, .dim = config.dim}, rng);
  }
  if (config.positions == Positions::sinusoidal) model->waves = sinusoidal_positions(config.context, config.dim);
  model->layers = TransformerEncoder::create(layers_of(config), rng);
  draw_normal(model->layers, 0.02, config.layers, rng);
  return model;
}

std::string Gpt::config() const { return config_text(architecture(), settings); }

Tensor Gpt::hidden(const Tensor& ids, const ForwardContext& context) const {
  check_length("gpt", ids.dim(1), settings.context);
  const Tensor x = embed(*this, ids, context);
  const ObservedPart part(context.observer, "stack");
  return layers.forward(x, {.causal = true}, context);
}

std::unique_ptr<Decoding> Gpt::start() const { return std::make_unique<GptDecoding>(*this); }

}  // namespace attend
