#include "attend/autograd/autograd.h"
#include "attend/ops/activation.h"
#include "attend/ops/cross_entropy.h"
#include "attend/ops/linear.h"
#include "attend/ops/norm.h"
#include "attend/ops/precision.h"
#include "attend/ops/softmax.h"
#include "attend/tensor/creation.h"
#include "cli/bench_workload.h"

// Forward and backward through autograd, as training runs them.
namespace attend::cli {
namespace {

constexpr int64_t kRows = 2048, kCols = 768;
constexpr double kElements = static_cast<double>(kRows * kCols);
constexpr double kFloat = sizeof(float);

/// Computes f(inputs), then the gradients from `dy`; the results are y and the gradients of the inputs.
template <class F>
Prepared forward_and_backward(std::vector<Tensor> inputs, Tensor dy, F f) {
  for (Tensor& input : inputs) set_requires_grad(input);
  Prepared prepared;
  prepared.before = [inputs] {
    for (const Tensor& input : inputs) zero_grad(input);
  };
  prepared.run = [inputs, dy, f] {
    Results results{f(inputs)};
    backward(results[0], dy);
    for (const Tensor& input : inputs) results.push_back(grad(input));
    return results;
  };
  return prepared;
}

// Compulsory traffic of an elementwise or row-wise op: forward reads x and writes y; backward reads dy and one saved
// tensor and writes dx. Five passes over the elements. Operations are those of the equation; e^ counts as one.
Workload row_wise(const char* name, double operations, std::function<Prepared()> prepare) {
  return {.name = name,
          .bound = Bound::memory,
          .operations = operations * kElements,
          .bytes = 5 * kElements * kFloat,
          .prepare = std::move(prepare)};
}

Workload linear_workload(const char* name, Precision precision) {
  constexpr int64_t kTokens = 512, kIn = 768, kOut = 3072;
  return {.name = name,
          .operations = 3 * 2.0 * kTokens * kIn * kOut,  // y, dx and dweight: one product each
          .prepare = [precision] {
            const Tensor dy = values({kTokens, kOut}, 4);
            return forward_and_backward({values({kTokens, kIn}, 1), values({kOut, kIn}, 2), values({kOut}, 3)}, dy,
                                        [precision](const auto& in) {
                                          const PrecisionScope scope(precision, bench_device());
                                          return linear(in[0], in[1], in[2]);
                                        });
          }};
}

Workload cross_entropy_workload() {
  constexpr int64_t kTokens = 256, kClasses = 50257;
  return {.name = "cross_entropy",
          .bound = Bound::memory,
          .operations = 6.0 * kTokens * kClasses,
          .bytes = 3.0 * kTokens * kClasses * kFloat,  // logits read forward; read again and their gradient written
          .prepare = [] {
            std::vector<int64_t> target;
            for (int64_t i = 0; i < kTokens; ++i) target.push_back(i * 7919 % kClasses);
            const Tensor chosen = tensor(target, {kTokens});
            return forward_and_backward({values({kTokens, kClasses}, 1)}, {},
                                        [chosen](const auto& in) { return cross_entropy(in[0], chosen); });
          }};
}

}  // namespace

std::vector<Workload> layer_workloads() {
  const auto on_rows = [](auto op) {
    return [op] { return forward_and_backward({values({kRows, kCols}, 1)}, values({kRows, kCols}, 2), op); };
  };
  std::vector<Workload> result{
      linear_workload("linear", Precision::f32),
      row_wise("layer_norm", 22,
               [] {
                 return forward_and_backward({values({kRows, kCols}, 1), values({kCols}, 2), values({kCols}, 3)},
                                             values({kRows, kCols}, 4),
                                             [](const auto& in) { return layer_norm(in[0], in[1], in[2]); });
               }),
      row_wise("gelu", 8, on_rows([](const auto& in) { return gelu(in[0]); })),
      row_wise("softmax", 9, on_rows([](const auto& in) { return softmax(in[0]); })),
      cross_entropy_workload(),
  };
  if (has_bf16()) result.push_back(linear_workload("linear_bf16", Precision::bf16));
  return result;
}

}  // namespace attend::cli
