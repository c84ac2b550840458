#include "nn/paged_step.h"

#include <algorithm>
#include <array>

#include "attend/ops/arithmetic.h"
#include "attend/ops/linear.h"
#include "attend/ops/position.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"
#include "nn/alibi.h"
#include "nn/heads.h"

namespace attend {
namespace {

/// Attention over the rows' own keys, or over those of their sources.
struct Call {
  const MultiheadAttention& module;
  const PagedSequences& sequences;
  AttentionOptions options;
  bool is_memory = false;
  std::string path{};
};

PagedSequences own_sequences(const PagedStep& step, int64_t layer) {
  PagedSequences result{.layout = step.layout, .offsets = step.offsets};
  for (size_t row = 0; row < step.tables.size(); ++row) {
    result.lengths.push_back(step.tables[row]->held() + step.offsets[row + 1] - step.offsets[row]);
    result.pages.push_back(step.tables[row]->addresses(layer));
  }
  return result;
}

PagedSequences memory_sequences(const PagedStep& step, int64_t layer) {
  PagedSequences result{.layout = step.layout, .offsets = step.memory_offsets};
  for (const PageTable* memory : step.memories) {
    result.lengths.push_back(memory->held());
    result.pages.push_back(memory->addresses(layer));
  }
  return result;
}

/// Tokens [begin, end) of x [1, heads, tokens, …], which belong to `rows` rows, as [rows, heads, tokens per row, …].
Tensor apart(const Tensor& x, int64_t begin, int64_t end, int64_t rows) {
  const Tensor part = contiguous(slice(x, 2, begin, end));
  Shape shape{part.dim(1), rows, (end - begin) / rows};
  for (int64_t axis = 3; axis < x.rank(); ++axis) shape.push_back(x.dim(axis));
  return contiguous(transpose(reshape(part, shape), 0, 1));
}

/// The trace of self-attention of some rows, with copies of their keys and values.
AttentionTrace own_trace(const Call& call, const TracedRows& rows, const Tensor& q, const Tensor& lse) {
  const auto first = static_cast<size_t>(rows.first), last = first + static_cast<size_t>(rows.count);
  const int64_t begin = call.sequences.offsets[first], end = call.sequences.offsets[last];
  std::vector<Tensor> keys, values;
  for (int64_t row = rows.first; row < rows.first + rows.count; ++row) {
    const PagedCopy copy = copy_pages(call.sequences, row);
    keys.push_back(copy.keys);
    values.push_back(copy.values);
  }
  AttentionTrace trace{.path = call.path,
                       .q = apart(q, begin, end, rows.count),
                       .k = concat(keys, 0),
                       .v = concat(values, 0),
                       .lse = apart(lse, begin, end, rows.count),
                       .options = call.options};
  if (call.options.bias) {
    trace.options.bias = apart(slice(call.options.bias, 3, 0, trace.k.dim(2)), begin, end, rows.count);
  }
  return trace;
}

/// The trace of cross-attention: the tokens of all rows are queries of one source.
AttentionTrace memory_trace(const Call& call, const PagedStep& step, const TracedRows& rows, const Tensor& q,
                            const Tensor& lse) {
  const int64_t begin = step.offsets[static_cast<size_t>(rows.first)];
  const int64_t end = step.offsets[static_cast<size_t>(rows.first + rows.count)];
  const auto source = std::ranges::upper_bound(call.sequences.offsets, begin) - call.sequences.offsets.begin() - 1;
  const PagedCopy copy = copy_pages(call.sequences, source);
  return {.path = call.path,
          .q = contiguous(slice(q, 2, begin, end)),
          .k = copy.keys,
          .v = copy.values,
          .lse = contiguous(slice(lse, 2, begin, end)),
          .options = call.options};
}

Tensor attend(const Call& call, const Tensor& q, PagedStep& step) {
  const AttentionResult result = paged_attention(q, call.sequences, call.options);
  for (TracedRows& rows : step.traced) {
    rows.traces.push_back(call.is_memory ? memory_trace(call, step, rows, q, result.lse)
                                         : own_trace(call, rows, q, result.lse));
  }
  return call.module.output.forward(join_heads(result.output));
}

Tensor attend_self(const MultiheadAttention& module, const Tensor& x, int64_t layer, PagedStep& step,
                   const std::string& path) {
  const MultiheadAttentionConfig& config = module.config;
  const std::array layers{module.query.weights(), module.key.weights(), module.value.weights()};
  const std::vector<Tensor> projected = linear_each(x, layers);
  Tensor q = split_heads(projected[0], config.heads, module.query_norm);
  Tensor k = split_heads(projected[1], config.key_heads, module.key_norm);
  if (config.rope) {
    RopeOptions turning = *config.rope;
    turning.positions = tensor(step.positions, {step.tokens()});
    q = rope(q, turning), k = rope(k, turning);
  }
  const PagedSequences sequences = own_sequences(step, layer);
  write_pages(sequences, k, split_heads(projected[2], config.key_heads));
  AttentionOptions options{.causal = true,
                           .alignment = Alignment::bottom_right,
                           .window = config.window,
                           .bias = step.bias,
                           .softcap = config.softcap,
                           .scale = config.scale};
  if (config.alibi) options.alibi = slopes_of(config.heads, q);
  return attend({.module = module, .sequences = sequences, .options = options, .path = path}, q, step);
}

Tensor attend_memory(const MultiheadAttention& module, const Tensor& x, int64_t layer, PagedStep& step,
                     const std::string& path) {
  const MultiheadAttentionConfig& config = module.config;
  const Tensor q = split_heads(module.query.forward(x), config.heads, module.query_norm);
  const PagedSequences sequences = memory_sequences(step, layer);
  return attend({.module = module,
                 .sequences = sequences,
                 .options = {.alignment = Alignment::bottom_right, .softcap = config.softcap, .scale = config.scale},
                 .is_memory = true,
                 .path = path},
                q, step);
}

/// A residual branch: norm(x + f(x)), or x + f(norm(x)) with norm_first.
template <class F>
Tensor branch(const TransformerLayerConfig& config, const Norm& norm, const Tensor& x, F&& f) {
  return config.norm_first ? x + f(norm.forward(x)) : norm.forward(x + f(x));
}

}  // namespace

int64_t PagedStep::longest() const {
  int64_t most = 0;
  for (size_t row = 0; row < tables.size(); ++row) {
    most = std::max(most, tables[row]->held() + offsets[row + 1] - offsets[row]);
  }
  return most;
}

Tensor paged_layer(const TransformerEncoderLayer& layer, const Tensor& x, int64_t index, PagedStep& step,
                   const std::string& path) {
  const Tensor attended = branch(layer.config, layer.attention_norm, x, [&](const Tensor& in) {
    return attend_self(layer.attention, in, index, step, path + ".attention");
  });
  return branch(layer.config, layer.feed_forward_norm, attended,
                [&](const Tensor& in) { return layer.feed_forward.forward(in); });
}

Tensor paged_layer(const TransformerDecoderLayer& layer, const Tensor& x, int64_t index, PagedStep& step,
                   const std::string& path) {
  const Tensor own = branch(layer.config, layer.attention_norm, x, [&](const Tensor& in) {
    return attend_self(layer.attention, in, index, step, path + ".attention");
  });
  const Tensor crossed = branch(layer.config, layer.cross_attention_norm, own, [&](const Tensor& in) {
    return attend_memory(layer.cross_attention, in, index, step, path + ".cross_attention");
  });
  return branch(layer.config, layer.feed_forward_norm, crossed,
                [&](const Tensor& in) { return layer.feed_forward.forward(in); });
}

void write_memory(const TransformerDecoderLayer& layer, const Tensor& memory, int64_t index,
                  std::span<const MemoryRow> rows) {
  const KeyValues projected = layer.cross_attention.project_memory(memory);
  for (size_t row = 0; row < rows.size(); ++row) {
    const int64_t length = rows[row].length, first = static_cast<int64_t>(row);
    const auto own = [&](const Tensor& x) { return slice(slice(x, 0, first, first + 1), 2, 0, length); };
    write_pages({.layout = rows[row].table->layout(),
                 .offsets = {0, length},
                 .lengths = {length},
                 .pages = {rows[row].table->addresses(index)}},
                own(projected.keys), own(projected.values));
  }
}

PageLayout page_layout(const MultiheadAttention& attention, DType dtype) {
  const MultiheadAttentionConfig& config = attention.config;
  return {.key_heads = config.key_heads, .key_dim = config.head_dim, .value_dim = config.head_dim, .dtype = dtype};
}

}  // namespace attend
