#include "attend/nn/relative_bias.h"

#include <cmath>

#include "attend/nn/init.h"
#include "attend/ops/embedding.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"

namespace attend {

RelativeBias RelativeBias::create(const RelativeBiasConfig& config, Rng& rng) {
  require<ShapeError>(config.heads >= 1, "RelativeBias: heads must be at least 1, got ", config.heads);
  require<ShapeError>(config.buckets >= 4 && config.buckets % 2 == 0,
                      "RelativeBias: buckets must be even and at least 4, got ", config.buckets);
  // Shared buckets begin at the first distance without a bucket of its own; max_distance must be larger than that.
  const int64_t near = config.looks_both_ways ? config.buckets / 4 : config.buckets / 2;
  require<ShapeError>(config.max_distance > near, "RelativeBias: max_distance must be larger than ", near, " for ",
                      config.buckets, " buckets, got ", config.max_distance);
  RelativeBias result;
  result.config = config;
  result.weight = normal_parameter({config.buckets, config.heads}, 0.02, rng);
  return result;
}

int64_t RelativeBias::bucket(int64_t distance) const {
  const int64_t buckets = config.looks_both_ways ? config.buckets / 2 : config.buckets;
  const int64_t first = config.looks_both_ways && distance > 0 ? buckets : 0;
  const int64_t far = config.looks_both_ways ? std::abs(distance) : std::max<int64_t>(-distance, 0);
  const int64_t exact = buckets / 2;
  if (far < exact) return first + far;
  // f32, as in the models' training code: rounding decides the bucket of distances at the edges.
  const float share =
      std::log(static_cast<float>(far) / static_cast<float>(exact)) /
      static_cast<float>(std::log(static_cast<double>(config.max_distance) / static_cast<double>(exact)));
  const auto step = static_cast<int64_t>(share * static_cast<float>(buckets - exact));
  return first + std::min(exact + step, buckets - 1);
}

Tensor RelativeBias::forward(const Places& places) const {
  const auto& [queries, keys, first] = places;
  if (needs_grad(weight)) {
    std::vector<int64_t> buckets;
    for (int64_t i = 0; i < queries; ++i) {
      for (int64_t j = 0; j < keys; ++j) buckets.push_back(bucket(j - first - i));
    }
    const Tensor bias = embedding(tensor<int64_t>(buckets, {queries, keys}), weight);
    return unsqueeze(contiguous(transpose(transpose(bias, 1, 2), 0, 1)), 0);
  }
  // Row i is row 0 shifted by i. All rows are therefore views of one row that begins at the smallest distance.
  std::vector<int64_t> buckets;
  for (int64_t d = 1 - queries - first; d < keys - first; ++d) buckets.push_back(bucket(d));
  const auto distances = static_cast<int64_t>(buckets.size());
  const Tensor by_distance = embedding(tensor<int64_t>(buckets, {distances}), weight);
  const Tensor row = contiguous(transpose(by_distance, 0, 1));  // [heads, distances]
  return row.as_strided({1, config.heads, queries, keys}, {0, distances, -1, 1}, queries - 1);
}

}  // namespace attend
