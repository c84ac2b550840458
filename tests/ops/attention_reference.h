#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "attend/base/random.h"
#include "attend/ops/attention.h"

namespace attend::testing {

/// Attention by its definition, in float64, independent of the library. All implementations are compared with it.
struct AttentionReference {
  std::vector<double> output, weights, lse;
};

inline double broadcast_at(const std::vector<double>& values, const Shape& shape, const std::array<int64_t, 4>& place) {
  int64_t index = 0;
  const int64_t missing = 4 - shape.rank();
  for (int64_t axis = 0; axis < shape.rank(); ++axis) {
    index = index * shape[axis] + (shape[axis] == 1 ? 0 : place[static_cast<size_t>(missing + axis)]);
  }
  return values[static_cast<size_t>(index)];
}

inline AttentionReference reference_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                              const AttentionOptions& o) {
  const auto qs = q.to_vector<double>(), ks = k.to_vector<double>(), vs = v.to_vector<double>();
  const auto mask = o.mask ? o.mask.to_vector<double>() : std::vector<double>{};
  const auto bias = o.bias ? o.bias.to_vector<double>() : std::vector<double>{};
  const auto slopes = o.alibi ? o.alibi.to_vector<double>() : std::vector<double>{};
  const auto lengths = o.lengths ? o.lengths.to_vector<int64_t>() : std::vector<int64_t>{};
  const int64_t batch = q.dim(0), heads = q.dim(1), queries = q.dim(2), dim = q.dim(3);
  const int64_t kv_heads = k.dim(1), keys = k.dim(2), width = v.dim(3);
  const double scale = o.scale.value_or(1 / std::sqrt(static_cast<double>(dim)));
  auto q_offsets = o.q_offsets ? o.q_offsets.to_vector<int64_t>() : std::vector<int64_t>{0, queries};
  auto k_offsets = o.k_offsets ? o.k_offsets.to_vector<int64_t>() : std::vector<int64_t>{0, keys};
  AttentionReference result;
  result.output.assign(static_cast<size_t>(batch * heads * queries * width), 0);
  result.weights.assign(static_cast<size_t>(batch * heads * queries * keys), 0);
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t g = h / (heads / kv_heads);
      for (int64_t row = 0; row < queries; ++row) {
        size_t s = 0;
        while (row >= q_offsets[s + 1]) ++s;
        const int64_t i = row - q_offsets[s], nq = q_offsets[s + 1] - q_offsets[s], k0 = k_offsets[s];
        const int64_t nk = lengths.empty() ? k_offsets[s + 1] - k0 : lengths[static_cast<size_t>(b)];
        const int64_t position = i + (o.alignment == Alignment::bottom_right ? nk - nq : 0);
        std::vector<double> score(static_cast<size_t>(nk), -std::numeric_limits<double>::infinity());
        double top = -std::numeric_limits<double>::infinity();
        for (int64_t j = 0; j < nk; ++j) {
          bool seen = !o.causal || j <= position;
          if (o.window > 0) seen = seen && j > position - o.window && (o.causal || j < position + o.window);
          if (o.mask) seen = seen && broadcast_at(mask, o.mask.shape(), {b, h, row, k0 + j}) != 0;
          if (!seen) continue;
          double x = 0;
          for (int64_t c = 0; c < dim; ++c) {
            x += qs[static_cast<size_t>(((b * heads + h) * queries + row) * dim + c)] *
                 ks[static_cast<size_t>(((b * kv_heads + g) * keys + k0 + j) * dim + c)];
          }
          x *= scale;
          if (o.softcap > 0) x = o.softcap * std::tanh(x / o.softcap);
          if (o.bias) x += broadcast_at(bias, o.bias.shape(), {b, h, row, k0 + j});
          if (o.alibi) x -= slopes[static_cast<size_t>(h)] * std::abs(static_cast<double>(position - j));
          score[static_cast<size_t>(j)] = x;
          top = std::max(top, x);
        }
        double sum = 0;
        for (double x : score) sum += std::isinf(x) ? 0 : std::exp(x - top);
        result.lse.push_back(sum > 0 ? top + std::log(sum) : -std::numeric_limits<double>::infinity());
        const int64_t flat = (b * heads + h) * queries + row;
        for (int64_t j = 0; j < nk; ++j) {
          const double x = score[static_cast<size_t>(j)];
          double w = std::isinf(x) ? 0 : std::exp(x - top) / sum;
          if (o.dropout > 0) {
            const auto group = static_cast<uint64_t>(flat * ((keys + 3) / 4) + j / 4);
            const auto words = philox(o.random.seed, group, o.random.stream);
            w = words[static_cast<size_t>(j % 4)] < drop_threshold(o.dropout) ? 0 : w / (1 - o.dropout);
          }
          result.weights[static_cast<size_t>(flat * keys + k0 + j)] = w;
          if (w == 0) continue;
          for (int64_t c = 0; c < width; ++c) {
            result.output[static_cast<size_t>(flat * width + c)] +=
                w * vs[static_cast<size_t>(((b * kv_heads + g) * keys + k0 + j) * width + c)];
          }
        }
      }
    }
  }
  return result;
}

}  // namespace attend::testing
