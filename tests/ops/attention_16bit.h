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
  double operator()(double x) const;
  /// Largest relative error of a rounding.
  double unit() const { return std::ldexp(1.0, -mantissa_); }

 private:
  int mantissa_, lowest_;
};

/// Attention as one would write it with matrices of a 16-bit type: every matrix is rounded, sums are exact. The
/// gradient of softmax takes Σ P ∘ dP from the rounded output, as Σ y · dy.
HalfResults naive_attention(const HalfInputs& in, const AttentionOptions& options, const Rounding& round);

}  // namespace attend::testing
