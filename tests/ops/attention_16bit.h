#pragma once

#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "attend/autograd/autograd.h"
#include "attend/ops/attention.h"
#include "attend/ops/position.h"
#include "ops/attention_reference.h"
#include "testing/values.h"

// Attention in bf16 and f16 on a GPU: its inputs, its f64 results on the CPU, and naive code in the same type.
namespace attend::testing {

/// Sizes and options of one call. Tensors are f64 on the CPU, with values that the 16-bit type has.
struct HalfCase {
  DType dtype = DType::bf16;
  int64_t batch = 1, heads = 2, kv_heads = 2, queries = 33, keys = 33, dim = 64, width = 64;
  AttentionOptions options;
};

inline Tensor on_cpu(const Tensor& x) { return x ? to(x, kCpu) : x; }
/// x in f64 on the CPU, rounded to `dtype`.
inline Tensor rounded(const Tensor& x, DType dtype) { return to(to(on_cpu(x), dtype), DType::f64); }
inline Tensor half_values(const HalfCase& c, const Shape& shape, uint64_t seed) {
  return rounded(host_values(shape, seed), c.dtype);
}
inline Tensor half_mask(const Shape& shape, uint64_t seed, double least = -0.3) {
  std::vector<uint8_t> bytes;
  for (double x : host_values(shape, seed).to_vector<double>()) bytes.push_back(x > least);
  return bool_tensor(bytes, shape);
}

struct HalfInputs {
  Tensor q, k, v, dy;
};
inline HalfInputs half_inputs(const HalfCase& c) {
  return {half_values(c, {c.batch, c.heads, c.queries, c.dim}, 1),
          half_values(c, {c.batch, c.kv_heads, c.keys, c.dim}, 2),
          half_values(c, {c.batch, c.kv_heads, c.keys, c.width}, 3),
          half_values(c, {c.batch, c.heads, c.queries, c.width}, 4)};
}

struct HalfResults {
  std::vector<double> y, lse, dq, dk, dv, dbias;
};

/// The results of attention() in a type on a device. `view`: lays out an input in memory.
inline HalfResults run_attention(
    const HalfInputs& in, AttentionOptions options, DType dtype, Device device,
    const std::function<Tensor(const Tensor&)>& view = [](const Tensor& x) { return x; }) {
  const auto moved = [&](const Tensor& x) { return parameter(view(to(to(on_cpu(x), dtype), device))); };
  const Tensor q = moved(in.q), k = moved(in.k), v = moved(in.v);
  if (options.bias) options.bias = parameter(to(to(on_cpu(options.bias), dtype), device));
  if (options.alibi) options.alibi = to(to(on_cpu(options.alibi), dtype), device);
  const AttentionResult result = attention_with_lse(q, k, v, options);
  backward(result.output, view(to(to(on_cpu(in.dy), dtype), device)));
  const auto values = [](const Tensor& x) {
    return x ? to(on_cpu(x), DType::f64).to_vector<double>() : std::vector<double>{};
  };
  return {values(result.output.detach()),
          values(result.lse),
          values(grad(q)),
          values(grad(k)),
          values(grad(v)),
          options.bias ? values(grad(options.bias)) : std::vector<double>{}};
}

/// Rounds to a type as a store does.
class Rounding {
 public:
  explicit Rounding(DType dtype)
      : mantissa_(dtype == DType::bf16 ? 8 : 11), lowest_(dtype == DType::bf16 ? -133 : -24) {}
  double operator()(double x) const {
    if (x == 0 || !std::isfinite(x)) return x;
    int exponent = 0;
    std::frexp(x, &exponent);
    const int unit = std::max(exponent - mantissa_, lowest_);
    return std::ldexp(std::nearbyint(std::ldexp(x, -unit)), unit);
  }
  /// Largest relative error of a rounding.
  double unit() const { return std::ldexp(1.0, -mantissa_); }

 private:
  int mantissa_, lowest_;
};

/// Attention as one would write it with matrices of a 16-bit type: every matrix is rounded, sums are exact. The
/// gradient of softmax takes Σ P ∘ dP from the rounded output, as Σ y · dy.
inline HalfResults naive_attention(const HalfInputs& in, const AttentionOptions& options, const Rounding& round) {
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
      for (int64_t c = 0; c < width; ++c) {
        r.y[at(row * width + c)] += dropped[at(j)] * vs[at((kv + j) * width + c)];
        r.dv[at((kv + j) * width + c)] += dropped[at(j)] * dys[at(row * width + c)];
        dp[at(j)] += dys[at(row * width + c)] * vs[at((kv + j) * width + c)];
      }
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
      double raw = 0;
      for (int64_t c = 0; c < dim; ++c) raw += qs[at(row * dim + c)] * ks[at((kv + j) * dim + c)];
      const double t = options.softcap > 0 ? std::tanh(raw * scale / options.softcap) : 0;
      ds = round(ds * (1 - t * t));
      for (int64_t c = 0; c < dim; ++c) {
        r.dq[at(row * dim + c)] += scale * ds * ks[at((kv + j) * dim + c)];
        r.dk[at((kv + j) * dim + c)] += scale * ds * qs[at(row * dim + c)];
      }
    }
  }
  for (auto* values : {&r.y, &r.dq, &r.dk, &r.dv, &r.dbias}) {
    for (double& x : *values) x = round(x);
  }
  return r;
}

}  // namespace attend::testing
