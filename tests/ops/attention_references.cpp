#include <array>
#include <cmath>
#include <limits>

#include "attend/base/random.h"
#include "ops/attention_16bit.h"

// The references of tests of attention. Unlike the tests, this file is compiled with optimisation.
namespace attend::testing {

namespace {

double broadcast_at(const std::vector<double>& values, const Shape& shape, const std::array<int64_t, 4>& place) {
  int64_t index = 0;
  const int64_t missing = 4 - shape.rank();
  for (int64_t axis = 0; axis < shape.rank(); ++axis) {
    index = index * shape[axis] + (shape[axis] == 1 ? 0 : place[static_cast<size_t>(missing + axis)]);
  }
  return values[static_cast<size_t>(index)];
}

double dot(const double* a, const double* b, int64_t count) {
  double sum = 0;
  for (int64_t c = 0; c < count; ++c) sum += a[c] * b[c];
  return sum;
}
void add_scaled(double* to, double factor, const double* x, int64_t count) {
  for (int64_t c = 0; c < count; ++c) to[c] += factor * x[c];
}

}  // namespace

AttentionReference reference_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& o) {
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
            const auto group = static_cast<uint64_t>(flat * ((keys + 7) / 8) + j / 8);
            const auto words = philox<kDropRounds>(o.random.seed, group, o.random.stream);
            w = dropout_keeps(words, j % 8, drop_threshold(o.dropout)) ? w / (1 - o.dropout) : 0;
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

double Rounding::operator()(double x) const {
  if (x == 0 || !std::isfinite(x)) return x;
  int exponent = 0;
  std::frexp(x, &exponent);
  const int unit = std::max(exponent - mantissa_, lowest_);
  return std::ldexp(std::nearbyint(std::ldexp(x, -unit)), unit);
}

HalfResults naive_attention(const HalfInputs& in, const AttentionOptions& options, const Rounding& round) {
  // Scores are those of the definition, rounded; the reference gives lse and which weights are 0.
  const AttentionReference exact = reference_attention(in.q, in.k, in.v, options);
  const auto qs = in.q.to_vector<double>(), ks = in.k.to_vector<double>(), vs = in.v.to_vector<double>();
  const auto dys = in.dy.to_vector<double>();
  const int64_t batch = in.q.dim(0), heads = in.q.dim(1), queries = in.q.dim(2), dim = in.q.dim(3);
  const int64_t kv_heads = in.k.dim(1), keys = in.k.dim(2), width = in.v.dim(3);
  const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(dim)));
  AttentionOptions undropped = options;
  undropped.dropout = 0;
  const auto weights = options.dropout > 0 ? reference_attention(in.q, in.k, in.v, undropped).weights : exact.weights;
  const auto at = [](int64_t i) { return static_cast<size_t>(i); };
  HalfResults r{std::vector<double>(exact.output.size()), exact.lse,
                std::vector<double>(qs.size()),           std::vector<double>(ks.size()),
                std::vector<double>(vs.size()),           {}};
  if (options.bias) r.dbias.assign(at(options.bias.numel()), 0);
  for (int64_t row = 0; row < batch * heads * queries; ++row) {
    const int64_t h = row / queries % heads, b = row / queries / heads;
    const int64_t kv = (b * kv_heads + h / (heads / kv_heads)) * keys;
    std::vector<double> p(at(keys)), dropped(at(keys)), dp(at(keys));
    for (int64_t j = 0; j < keys; ++j) {
      // A weight w = e^(s − lse) of a rounded score s.
      const double w = weights[at(row * keys + j)];
      const double score = w > 0 ? std::log(w) + exact.lse[at(row)] : 0;
      p[at(j)] = w > 0 ? round(std::exp(round(score) - exact.lse[at(row)])) : 0;
      dropped[at(j)] = w > 0 ? round(p[at(j)] * exact.weights[at(row * keys + j)] / w) : 0;
      const double *value = &vs[at((kv + j) * width)], *dy = &dys[at(row * width)];
      add_scaled(&r.y[at(row * width)], dropped[at(j)], value, width);
      add_scaled(&r.dv[at((kv + j) * width)], dropped[at(j)], dy, width);
      dp[at(j)] = dot(dy, value, width);
      dp[at(j)] = w > 0 ? round(round(dp[at(j)]) * exact.weights[at(row * keys + j)] / w) : 0;
    }
    double delta = 0;
    for (int64_t c = 0; c < width; ++c) delta += round(r.y[at(row * width + c)]) * dys[at(row * width + c)];
    for (int64_t j = 0; j < keys; ++j) {
      if (p[at(j)] == 0) continue;
      double ds = round(p[at(j)] * (dp[at(j)] - round(delta)));
      if (options.bias) {
        int64_t index = 0;
        const std::array<int64_t, 4> place{b, h, row % queries, j};
        const Shape& shape = options.bias.shape();
        for (int64_t axis = 0; axis < shape.rank(); ++axis)
          index = index * shape[axis] + (shape[axis] == 1 ? 0 : place[at(4 - shape.rank() + axis)]);
        r.dbias[at(index)] += ds;
      }
      const double *query = &qs[at(row * dim)], *key = &ks[at((kv + j) * dim)];
      const double raw = dot(query, key, dim);
      const double t = options.softcap > 0 ? std::tanh(raw * scale / options.softcap) : 0;
      ds = round(ds * (1 - t * t));
      add_scaled(&r.dq[at(row * dim)], scale * ds, key, dim);
      add_scaled(&r.dk[at((kv + j) * dim)], scale * ds, query, dim);
    }
  }
  for (auto* values : {&r.y, &r.dq, &r.dk, &r.dv, &r.dbias}) {
    for (double& x : *values) x = round(x);
  }
  return r;
}

}  // namespace attend::testing
