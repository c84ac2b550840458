#include "serve/look.h"

#include <algorithm>

#include "attend/models/gpt.h"
#include "attend/models/rnn.h"
#include "attend/models/transformer_model.h"
#include "attend/ops/shape.h"

namespace attend {

int64_t layer_of(const std::string& path) {
  constexpr std::string_view kLayers = "layers.";
  const size_t at = path.find(kLayers);
  return at == std::string::npos ? 0 : std::atoll(path.c_str() + at + kLayers.size());
}

Json look_json(const SequenceStep& step, int64_t row, const LookSettings& settings) {
  Json result = Json::array();
  for (const AttentionTrace& trace : *step.traces) {
    const int64_t layer = layer_of(trace.path), count = trace.q.dim(1);
    if (!settings.layers.empty() && !std::ranges::binary_search(settings.layers, layer)) continue;
    std::vector<int64_t> heads;
    for (int64_t head = 0; head < count; ++head) {
      if (settings.heads.empty() || std::ranges::binary_search(settings.heads, head)) heads.push_back(head);
    }
    if (heads.empty()) continue;
    const AttentionWeights weights = step.weights_of(trace, row, heads, settings.top);
    const auto values = weights.values.to_vector<float>();  // [heads, top]
    const auto places = weights.places.to_vector<int64_t>();
    const size_t top = values.size() / heads.size();
    for (size_t h = 0; h < heads.size(); ++h) {
      Json positions = Json::array(), shares = Json::array();
      for (size_t i = h * top; i < (h + 1) * top && values[i] > 0; ++i) {
        positions.push_back(places[i]);
        shares.push_back(values[i]);
      }
      result.push_back({{"module", trace.path},
                        {"layer", layer},
                        {"head", heads[h]},
                        {"positions", std::move(positions)},
                        {"weights", std::move(shares)}});
    }
  }
  return result;
}

AttentionSize attention_size(const Model& model) {
  if (const auto* gpt = dynamic_cast<const Gpt*>(&model)) return {gpt->settings.layers, gpt->settings.heads};
  if (const auto* pair = dynamic_cast<const TransformerModel*>(&model)) {
    const auto& settings = pair->settings;
    return {settings.decoder_layers, settings.decoder_heads > 0 ? settings.decoder_heads : settings.heads};
  }
  const auto* rnn = dynamic_cast<const Rnn*>(&model);
  return rnn != nullptr && rnn->look_back ? AttentionSize{1, 1} : AttentionSize{};
}

void HypothesisLooks::add(const SequenceStep& step) {
  const std::vector<int64_t> before = node_of_row_;
  for (const WrittenNode& node : step.nodes) {
    if (node.row < 0 && !node.is_finished) continue;
    const auto from = static_cast<size_t>(node.from), row = static_cast<size_t>(node.row);
    nodes_.push_back({.parent = from < before.size() ? before[from] : -1,
                      .id = node.id,
                      .look = look_json(step, node.from, settings_)});
    if (node.row < 0) continue;
    node_of_row_.resize(std::max(node_of_row_.size(), row + 1), -1);
    node_of_row_[row] = std::ssize(nodes_) - 1;
  }
}

std::vector<TokenRecord> HypothesisLooks::tokens_of(std::span<const int32_t> ids) const {
  std::vector<TokenRecord> result;
  int64_t parent = -1;
  for (int64_t i = 0; i < std::ssize(nodes_) && result.size() < ids.size(); ++i) {
    const Node& node = nodes_[static_cast<size_t>(i)];
    if (node.parent != parent || node.id != ids[result.size()]) continue;
    result.push_back({.id = node.id, .look = node.look});
    parent = i;
  }
  return result;
}

}  // namespace attend
