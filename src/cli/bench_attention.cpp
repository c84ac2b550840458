#include <cmath>

#include "attend/autograd/autograd.h"
#include "attend/ops/attention.h"
#include "attend/ops/position.h"
#include "attend/tensor/creation.h"
#include "cli/bench_workload.h"

namespace attend::cli {
namespace {

/// One attention call, named after its distinguishing option.
struct Case {
  std::string suffix;
  int64_t batch = 1, heads = 12, kv_heads = 12, length = 4096, dim = 64;
  double visible = 1;  ///< share of the query–key pairs that are visible
  DType dtype = DType::f32;
  std::function<void(AttentionOptions&)> set = [](AttentionOptions&) {};
  bool trains_bias = true;  ///< whether the backward pass computes the gradient of the bias
};

struct Inputs {
  Tensor q, k, v, dy;
  AttentionOptions options;
};

Inputs inputs_of(const Case& c) {
  const auto draw = [&](int64_t heads, uint64_t stream) {
    return to(values({c.batch, heads, c.length, c.dim}, stream), c.dtype);
  };
  Inputs in{draw(c.heads, 1), draw(c.kv_heads, 2), draw(c.kv_heads, 3), draw(c.heads, 4), {}};
  c.set(in.options);
  for (Tensor* tensor : {&in.options.bias, &in.options.alibi}) {
    if (*tensor) *tensor = to(*tensor, c.dtype);
  }
  return in;
}

Precision precision_of(const Case& c) { return c.dtype == DType::bf16 ? Precision::bf16 : Precision::f32; }

/// Two dot products of 2 · dim operations for each visible pair.
double forward_operations(const Case& c) {
  const auto length = static_cast<double>(c.length);
  return 4.0 * static_cast<double>(c.batch * c.heads * c.dim) * length * length * c.visible;
}

Workload forward_workload(const Case& c) {
  return {.name = "attention_forward" + c.suffix,
          .operations = forward_operations(c),
          .precision = precision_of(c),
          .prepare = [c] {
            Prepared prepared;
            prepared.run = [in = inputs_of(c)] {
              const NoGrad no_grad;
              return Results{attention(in.q, in.k, in.v, in.options)};
            };
            return prepared;
          }};
}

/// Five products instead of the forward's two: the scores again, dv, the gradient of the weights, dq and dk.
Workload backward_workload(const Case& c) {
  return {.name = "attention_backward" + c.suffix,
          .operations = 2.5 * forward_operations(c),
          .precision = precision_of(c),
          .prepare = [c] {
            auto in = std::make_shared<Inputs>(inputs_of(c));
            for (Tensor* tensor : {&in->q, &in->k, &in->v}) set_requires_grad(*tensor);
            const bool trains_bias = in->options.bias && c.trains_bias;
            if (trains_bias) set_requires_grad(in->options.bias);
            auto y = std::make_shared<Tensor>();
            Prepared prepared;
            prepared.before = [in, y, trains_bias] {
              for (const Tensor& tensor : {in->q, in->k, in->v}) zero_grad(tensor);
              if (trains_bias) zero_grad(in->options.bias);
              *y = attention(in->q, in->k, in->v, in->options);
            };
            prepared.run = [in, y, trains_bias] {
              backward(*y, in->dy);
              Results results{grad(in->q), grad(in->k), grad(in->v)};
              if (trains_bias) results.push_back(grad(in->options.bias));
              return results;
            };
            return prepared;
          }};
}

/// The share of pairs (i, j) below `length` for which `sees` is true.
template <class F>
double visible_share(int64_t length, F sees) {
  int64_t pairs = 0;
  for (int64_t i = 0; i < length; ++i) {
    for (int64_t j = 0; j < length; ++j) pairs += sees(i, j);
  }
  return static_cast<double>(pairs) / static_cast<double>(length * length);
}

constexpr int64_t kShort = 2048;  // for the variants: beyond this length the rate hardly changes
constexpr int64_t kWindow = 512;

double causal_share(int64_t length) { return static_cast<double>(length + 1) / static_cast<double>(2 * length); }

/// A random mask, half of it true: no block can be skipped, so all pairs count.
Tensor random_mask(int64_t length) {
  std::vector<uint8_t> bits(static_cast<size_t>(length * length));
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = philox(1, i / 4, 0)[i % 4] & 1;
  return bool_tensor(bits, {1, 1, length, length});
}

std::vector<Case> masks() {
  const auto near = [](int64_t i, int64_t j) { return i - kWindow < j && j < i + kWindow; };
  const auto near_before = [](int64_t i, int64_t j) { return i - kWindow < j && j <= i; };
  return {
      {.suffix = "_mask", .length = kShort, .set = [](auto& o) { o.mask = random_mask(kShort); }},
      {.suffix = "_padding",
       .batch = 2,
       .length = kShort,
       .visible = 0.75,
       .set =
           [](auto& o) {
             o.lengths = tensor<int64_t>({kShort, kShort / 2}, {2});
           }},
      {.suffix = "_varlen",
       .length = kShort,
       .visible = 0.375,  // (1024² + 1024² · ½) / 2048²
       .set =
           [](auto& o) {
             o.q_offsets = o.k_offsets = tensor<int64_t>({0, 1024, 1536, 2048}, {4});
           }},
      {.suffix = "_window", .visible = visible_share(4096, near), .set = [](auto& o) { o.window = kWindow; }},
      {.suffix = "_window_causal",
       .visible = visible_share(4096, near_before),
       .set =
           [](auto& o) {
             o.window = kWindow;
             o.causal = true;
           }},
  };
}

std::vector<Case> biases() {
  return {
      {.suffix = "_bias",
       .length = kShort,
       .set =
           [](auto& o) {
             o.bias = values({1, 12, kShort, kShort}, 5);
           }},
      {.suffix = "_bias_broadcast",
       .length = kShort,
       .set =
           [](auto& o) {
             o.bias = values({1, 1, kShort, kShort}, 5);
           }},
      {.suffix = "_alibi", .length = kShort, .set = [](auto& o) { o.alibi = alibi_slopes(12); }},
      {.suffix = "_softcap", .length = kShort, .set = [](auto& o) { o.softcap = 30; }},
      {.suffix = "_dropout",
       .length = kShort,
       .set =
           [](auto& o) {
             o.dropout = 0.1;
             o.random = {7, 7};
           }},
      {.suffix = "_gqa", .kv_heads = 3, .length = kShort},
  };
}

/// One query against 4096 cached keys; cycles through eight such caches, 200 MB, to exceed the processor's caches.
Workload decode_workload() {
  constexpr int64_t kHeads = 12, kKeys = 4096, kDim = 64, kCaches = 8;
  return {.name = "attention_decode",
          .bound = Bound::memory,
          .operations = 4.0 * kHeads * kKeys * kDim,
          .bytes = 2.0 * kHeads * kKeys * kDim * sizeof(float),
          .prepare = [] {
            std::vector<Tensor> keys, items;
            for (uint64_t i = 0; i < kCaches; ++i) {
              keys.push_back(values({1, kHeads, kKeys, kDim}, 2 * i));
              items.push_back(values({1, kHeads, kKeys, kDim}, 2 * i + 1));
            }
            Prepared prepared;
            prepared.run = [keys, items, q = values({1, kHeads, 1, kDim}, 99), turn = size_t{0}]() mutable {
              const NoGrad no_grad;
              turn = (turn + 1) % keys.size();
              return Results{attention(q, keys[turn], items[turn])};
            };
            return prepared;
          }};
}

/// The forward pass plus eight rows of one head's weights, against the forward pass alone.
Workload weights_workload(const Case& c) {
  return {.name = "attention_weights" + c.suffix,
          .bound = Bound::baseline,
          .operations = forward_operations(c),
          .prepare = [c] {
            Prepared prepared;
            const Inputs in = inputs_of(c);
            prepared.baseline = [in] {
              const NoGrad no_grad;
              const AttentionResult result = attention_with_lse(in.q, in.k, in.v);
              return Results{result.output, result.lse};
            };
            prepared.run = [in, baseline = prepared.baseline] {
              const NoGrad no_grad;
              Results results = baseline();
              const WeightSelection chosen{.heads = {0}, .rows = {0, 1000, 2000, 3000, 4000, 5000, 6000, 7000}};
              results.push_back(attention_weights(in.q, in.k, results[1], {}, chosen).values);
              return results;
            };
            return prepared;
          }};
}

/// Forward and backward at a length whose full weight matrix would take 16 GiB.
Workload memory_workload() {
  const Case c{.heads = 1, .kv_heads = 1, .length = 65536};
  return {.name = "attention_memory", .operations = 3.5 * forward_operations(c), .slow = true, .prepare = [c] {
            Inputs in = inputs_of(c);
            for (Tensor* tensor : {&in.q, &in.k, &in.v}) set_requires_grad(*tensor);
            Prepared prepared;
            prepared.before = [in] {
              for (const Tensor& tensor : {in.q, in.k, in.v}) zero_grad(tensor);
            };
            prepared.run = [in] {
              Results results{attention(in.q, in.k, in.v)};
              backward(results[0], in.dy);
              for (const Tensor& tensor : {in.q, in.k, in.v}) results.push_back(grad(tensor));
              return results;
            };
            return prepared;
          }};
}

// The cases of docs/gpu.md, in bf16. Only listed on a GPU: on a CPU each would take minutes.
constexpr int64_t kGpuShort = 8192, kGpuLong = 16384;

Case gpu_case(std::string suffix, int64_t dim, int64_t length) {
  const int64_t heads = 2048 / dim;
  return {.suffix = "_bf16_d" + std::to_string(dim) + "_" + std::to_string(length / 1024) + "k" + suffix,
          .heads = heads,
          .kv_heads = heads,
          .length = length,
          .dim = dim,
          .dtype = DType::bf16};
}

Case causal_case(int64_t dim, int64_t length) {
  Case c = gpu_case("_causal", dim, length);
  c.visible = causal_share(length);
  c.set = [](auto& o) { o.causal = true; };
  return c;
}

/// Each option alone. A dense bias or mask of all heads would take 4 GiB: one for all heads is enough.
std::vector<Case> gpu_options(int64_t dim) {
  const auto with = [dim](const char* suffix, double visible, std::function<void(AttentionOptions&)> set) {
    Case c = gpu_case(suffix, dim, kGpuShort);
    c.visible = visible;
    c.set = std::move(set);
    return c;
  };
  const int64_t heads = 2048 / dim;
  const double near = 1 - std::pow(1 - static_cast<double>(kWindow) / kGpuShort, 2);  // of a band without its corners
  std::vector<Case> all{
      gpu_case("", dim, kGpuShort),
      causal_case(dim, kGpuShort),
      with("_window", near, [](auto& o) { o.window = kWindow; }),
      with("_mask", 1, [](auto& o) { o.mask = random_mask(kGpuShort); }),
      with("_bias", 1,
           [](auto& o) {
             o.bias = values({1, 1, kGpuShort, kGpuShort}, 5);
           }),
      with("_padding", 0.5, [](auto& o) { o.lengths = tensor<int64_t>({kGpuShort / 2}, {1}); }),
      with("_varlen", 0.375,
           [](auto& o) {
             const int64_t quarter = kGpuShort / 4;
             o.q_offsets = o.k_offsets = tensor<int64_t>({0, 2 * quarter, 3 * quarter, 4 * quarter}, {4});
           }),
      with("_alibi", 1, [heads](auto& o) { o.alibi = alibi_slopes(heads); }),
      with("_softcap", 1, [](auto& o) { o.softcap = 30; }),
      with("_dropout", 1,
           [](auto& o) {
             o.dropout = 0.1;
             o.random = {7, 7};
           }),
  };
  Case fixed = with("_bias_fixed", 1, [](auto& o) { o.bias = values({1, 1, kGpuShort, kGpuShort}, 5); });
  fixed.trains_bias = false;
  all.push_back(fixed);
  Case grouped = gpu_case("_gqa", dim, kGpuShort);
  grouped.kv_heads = grouped.heads / 4;
  all.push_back(grouped);
  return all;
}

}  // namespace

std::vector<Workload> gpu_attention_workloads() {
  std::vector<Case> cases;
  for (const int64_t dim : {128, 64}) {
    cases.push_back(gpu_case("", dim, kGpuLong));
    cases.push_back(causal_case(dim, kGpuLong));
    for (Case& c : gpu_options(dim)) cases.push_back(std::move(c));
  }
  std::vector<Workload> result;
  for (const Case& c : cases) {
    if (c.trains_bias) result.push_back(forward_workload(c));
    result.push_back(backward_workload(c));
  }
  Case weighted = gpu_case("", 64, kGpuShort);
  weighted.heads = weighted.kv_heads = 16;  // width 1,024
  result.push_back(weights_workload(weighted));
  return result;
}

Device& bench_device() {
  static Device device;
  return device;
}

Tensor values(const Shape& shape, uint64_t stream) { return to(normal(shape, 0, 1, {1, stream}), bench_device()); }

std::vector<Workload> attention_workloads() {
  const Case causal{.suffix = "_causal", .visible = causal_share(4096), .set = [](auto& o) { o.causal = true; }};
  const Case wide{.suffix = "_d128", .dim = 128};
  std::vector<Workload> result{forward_workload({}),   forward_workload(causal),
                               backward_workload({}),  backward_workload(causal),
                               forward_workload(wide), backward_workload(wide),
                               decode_workload(),      weights_workload({.heads = 8, .kv_heads = 8, .length = 8192})};
  for (const auto& group : {masks(), biases()}) {
    for (const Case& c : group) {
      result.push_back(forward_workload(c));
      result.push_back(backward_workload(c));
    }
  }
  result.push_back(memory_workload());
  return result;
}

}  // namespace attend::cli
