#include "attend/models/text_pooling.h"

#include <algorithm>
#include <cmath>

#include "attend/base/error.h"

namespace attend {
namespace {

std::vector<double> pooled(std::span<const float> tokens, size_t width, TextPooling pooling) {
  const size_t count = tokens.size() / width;
  const auto row = [&](size_t i) { return tokens.subspan(i * width, width); };
  if (pooling == TextPooling::first) return {row(0).begin(), row(0).end()};
  if (pooling == TextPooling::last) return {row(count - 1).begin(), row(count - 1).end()};
  std::vector<double> result(width, pooling == TextPooling::max ? -INFINITY : 0);
  double total = 0;
  for (size_t i = 0; i < count; ++i) {
    const double weight = pooling == TextPooling::weighted ? static_cast<double>(i + 1) : 1;
    total += weight;
    for (size_t c = 0; c < width; ++c) {
      const double value = row(i)[c];
      result[c] = pooling == TextPooling::max ? std::max(result[c], value) : result[c] + weight * value;
    }
  }
  if (pooling == TextPooling::max) return result;
  for (double& value : result) value /= pooling == TextPooling::mean_sqrt ? std::sqrt(total) : total;
  return result;
}

}  // namespace

std::vector<float> pooled_text(std::span<const float> tokens, int64_t width, const SentenceSettings& settings) {
  require<ShapeError>(width >= 1 && !tokens.empty() && tokens.size() % static_cast<size_t>(width) == 0,
                      "pooled_text: expected vectors of ", width, " numbers for at least one token, got ",
                      tokens.size(), " numbers");
  std::vector<float> result;
  for (const TextPooling pooling : settings.pooling) {
    for (const double value : pooled(tokens, static_cast<size_t>(width), pooling)) {
      result.push_back(static_cast<float>(value));
    }
  }
  if (!settings.is_normalized) return result;
  double squares = 0;
  for (const float value : result) squares += static_cast<double>(value) * value;
  const double length = std::max(std::sqrt(squares), 1e-12);
  for (float& value : result) value = static_cast<float>(value / length);
  return result;
}

}  // namespace attend
