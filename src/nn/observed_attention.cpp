#include "nn/observed_attention.h"

#include "attend/nn/masks.h"
#include "attend/ops/arithmetic.h"
#include "attend/tensor/creation.h"
#include "ops/ring_attention.h"

namespace attend {
namespace {

void hide_keys(AttentionOptions& options, const std::vector<int64_t>& keys, int64_t count) {
  std::vector<uint8_t> seen(static_cast<size_t>(count), 1);
  for (const int64_t key : keys) {
    if (key >= 0 && key < count) seen[static_cast<size_t>(key)] = 0;
  }
  options.mask = logical_and(bool_tensor(seen, {1, 1, 1, count}), options.mask);
}

Tensor without_heads(const Tensor& output, const std::vector<int64_t>& heads) {
  std::vector<float> gates(static_cast<size_t>(output.dim(1)), 1);
  for (const int64_t head : heads) {
    require<ShapeError>(head >= 0 && head < output.dim(1), "ablation: there is no head ", head, "; the layer has ",
                        output.dim(1), ", counted from 0");
    gates[static_cast<size_t>(head)] = 0;
  }
  return output * on_device(tensor<float>(gates, {1, output.dim(1), 1, 1}), output.device());
}

}  // namespace

TracedAttention observed_attention(const Tensor& q, const Tensor& k, const Tensor& v, AttentionOptions options,
                                   const ForwardPass& pass) {
  if (pass.context) {
    require<ShapeError>(!pass.observer, "attention: a divided sequence cannot be observed");
    return {.output = ring_attention(q, k, v, options, *pass.context), .trace = {}};
  }
  const Ablation ablation = pass.observer ? pass.observer->ablation() : Ablation{};
  if (!ablation.keys.empty()) hide_keys(options, ablation.keys, k.dim(2));
  AttentionResult attended = attention_with_lse(q, k, v, options);
  if (!ablation.heads.empty()) attended.output = without_heads(attended.output, ablation.heads);
  if (options.bias) options.bias = options.bias.detach();  // the trace must not keep the graph alive
  TracedAttention result{attended.output,
                         {.path = {},
                          .q = q.detach(),
                          .k = k.detach(),
                          .v = v.detach(),
                          .lse = attended.lse.detach(),
                          .options = options}};
  if (pass.observer) {
    result.trace.path = pass.observer->path();
    pass.observer->attended(result.trace);
  }
  return result;
}

}  // namespace attend
