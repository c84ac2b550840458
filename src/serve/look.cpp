#include "serve/look.h"

#include <algorithm>

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

}  // namespace attend
