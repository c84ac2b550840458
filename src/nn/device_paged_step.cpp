#include "nn/device_paged_step.h"

#include "attend/autograd/autograd.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"
#include "nn/generation_step.h"
#include "ops/generation.h"

namespace attend {
namespace {

/// One attention of a layer.
struct Call {
  DevicePagedStep& step;
  int64_t layer = 0;
  bool is_memory = false;
  std::string path{};
};

/// x [tokens, …] of tokens [begin, end), which belong to `rows` rows, as [rows, heads, tokens per row, …].
Tensor apart(const Tensor& x, int64_t begin, int64_t end, int64_t rows) {
  const Tensor part = slice(x, 0, begin, end);  // [tokens, heads, 1, …]
  Shape shape{rows, (end - begin) / rows, x.dim(1)};
  for (int64_t axis = 3; axis < x.rank(); ++axis) shape.push_back(x.dim(axis));
  return contiguous(transpose(reshape(contiguous(part), shape), 1, 2));
}

/// Copies of the keys and values of a row, f32 [1, key heads, length, dim].
KeyValues copy_row(const Call& call, const PageTable& table, int64_t length) {
  const PagePool& pool = *call.step.pool;
  std::vector<int64_t> places;
  for (int64_t position = 0; position < length; ++position) {
    const int32_t page = table.pages()[static_cast<size_t>(position / kPagePositions)];
    places.push_back(PagePool::first_row(page) + position % kPagePositions);
  }
  const PageLayout& layout = pool.layout();
  const auto copied = [&](bool is_value) {
    const Tensor from = pool.rows(call.layer, is_value);
    const Tensor rows = embedding_unchecked(on_device(tensor(places, {length}), from.device()), from);
    return contiguous(transpose(reshape(rows, {1, length, layout.key_heads, layout.key_dim}), 1, 2));
  };
  return {copied(false), copied(true)};
}

AttentionTrace trace_of(const Call& call, const TracedRows& rows, const Tensor& q, const AttentionResult& result,
                        const AttentionOptions& options) {
  const PagedStep& step = *call.step.described;
  const auto first = static_cast<size_t>(rows.first), last = first + static_cast<size_t>(rows.count);
  const int64_t begin = step.offsets[first], end = step.offsets[last];
  AttentionTrace trace{.path = call.path, .options = options};
  trace.options.bias = {};
  if (call.is_memory) {  // the tokens of all rows are queries of one source
    const auto source = std::ranges::upper_bound(step.memory_offsets, begin) - step.memory_offsets.begin() - 1;
    const PageTable& table = *step.memories[static_cast<size_t>(source)];
    const KeyValues copy = copy_row(call, table, table.held());
    trace.q = apart(q, begin, end, 1);
    trace.lse = apart(result.lse, begin, end, 1);
    trace.k = copy.keys, trace.v = copy.values;
    return trace;
  }
  std::vector<Tensor> keys, values;
  for (size_t row = first; row < last; ++row) {
    const int64_t length = step.tables[row]->held() + step.offsets[row + 1] - step.offsets[row];
    const KeyValues copy = copy_row(call, *step.tables[row], length);
    keys.push_back(copy.keys);
    values.push_back(copy.values);
  }
  trace.q = apart(q, begin, end, rows.count);
  trace.lse = apart(result.lse, begin, end, rows.count);
  trace.k = concat(keys, 0), trace.v = concat(values, 0);
  trace.options.causal = true;
  if (options.bias) trace.options.bias = apart(slice(options.bias, 3, 0, trace.k.dim(2)), begin, end, rows.count);
  return trace;
}

Tensor attend(const Call& call, const Tensor& q, AttentionOptions options) {
  DevicePages pages = call.is_memory ? call.step.memory : call.step.own;
  pages.keys = call.step.pool->rows(call.layer, false);
  pages.values = call.step.pool->rows(call.layer, true);
  if (!call.is_memory) options.bias = call.step.bias;
  const AttentionResult result = paged_decode(q, pages, options);
  for (TracedRows& rows : call.step.traced) rows.traces.push_back(trace_of(call, rows, q, result, options));
  return result.output;
}

Tensor attend_self(const MultiheadAttention& attention, const Tensor& x, const Norm* norm, const Tensor& residual,
                   const Call& call) {
  const DevicePagedStep& step = call.step;
  return step_attention(attention, x, norm, residual,
                        {.key_rows = step.pool->rows(call.layer, false),
                         .value_rows = step.pool->rows(call.layer, true),
                         .places = step.places,
                         .positions = step.positions},
                        [&](const Tensor& q, const AttentionOptions& options) { return attend(call, q, options); });
}

}  // namespace

Tensor device_paged_layer(const TransformerEncoderLayer& layer, const Tensor& x, int64_t index, DevicePagedStep& step,
                          const std::string& path) {
  const Tensor own = step_residual(
      layer.config, layer.attention_norm, x, [&](const Tensor& in, const Norm* norm, const Tensor& before) {
        return attend_self(layer.attention, in, norm, before, {step, index, false, path + ".attention"});
      });
  return step_residual(layer.config, layer.feed_forward_norm, own,
                       [&](const Tensor& in, const Norm* norm, const Tensor& before) {
                         return step_feed_forward(layer.feed_forward, in, norm, before);
                       });
}

Tensor device_paged_layer(const TransformerDecoderLayer& layer, const Tensor& x, int64_t index, DevicePagedStep& step,
                          const std::string& path) {
  const Tensor own = step_residual(
      layer.config, layer.attention_norm, x, [&](const Tensor& in, const Norm* norm, const Tensor& before) {
        return attend_self(layer.attention, in, norm, before, {step, index, false, path + ".attention"});
      });
  const Tensor crossed = step_residual(
      layer.config, layer.cross_attention_norm, own, [&](const Tensor& in, const Norm* norm, const Tensor& before) {
        const Call call{step, index, true, path + ".cross_attention"};
        return step_memory(layer.cross_attention, in, norm, before,
                           [&](const Tensor& q, const AttentionOptions& options) { return attend(call, q, options); });
      });
  return step_residual(layer.config, layer.feed_forward_norm, crossed,
                       [&](const Tensor& in, const Norm* norm, const Tensor& before) {
                         return step_feed_forward(layer.feed_forward, in, norm, before);
                       });
}

void write_device_memory(const TransformerDecoderLayer& layer, const Tensor& memory, int64_t index,
                         const PagePool& pool, const Tensor& places) {
  const KeyValues projected = layer.cross_attention.project_memory(memory);
  const auto put = [&](const Tensor& x, bool is_value) {
    put_rows(reshape(transpose(x, 1, 2), {places.numel(), -1}), places, pool.rows(index, is_value));
  };
  put(projected.keys, false);
  put(projected.values, true);
}

}  // namespace attend
