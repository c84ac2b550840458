#include "models/paged_decoding.h"

#include <algorithm>
#include <cmath>

#include "attend/autograd/autograd.h"
#include "attend/models/gpt.h"
#include "attend/models/transformer_model.h"
#include "attend/nn/cache.h"
#include "attend/ops/arithmetic.h"
#include "attend/ops/embedding.h"
#include "attend/ops/precision.h"
#include "attend/ops/shape.h"
#include "attend/ops/weight_format.h"
#include "attend/tensor/creation.h"
#include "models/position_table.h"
#include "nn/generation_step.h"
#include "ops/generation.h"

namespace attend {
namespace {

/// x [1, tokens, dim] plus the rows of `table` at the step's positions; x if the table is empty.
Tensor at_positions(const Tensor& x, const Tensor& table, const PagedStep& step) {
  return table ? x + embedding(tensor(step.positions, {1, step.tokens()}), table) : x;
}

std::string layer_path(const char* stack, size_t index) {
  return std::string(stack) + ".layers." + std::to_string(index);
}

/// Rows `last` of x [tokens, 1, dim]; all if `last` is empty.
Tensor rows_at(const Tensor& x, const Tensor& last) {
  return last ? reshape(take_rows(reshape(x, {x.dim(0), x.dim(2)}), last), {last.numel(), 1, x.dim(2)}) : x;
}

/// A model's whole position table on the device; empty if it has none.
Tensor device_positions(const std::optional<LearnedPositions>& learned, const WaveTable& waves, int64_t context,
                        Device device) {
  const Tensor table = position_rows(learned, waves, context);
  return table ? on_device(table, device) : table;
}

class PagedGpt final : public PagedDecoding {
 public:
  PagedGpt(const Gpt& model, std::shared_ptr<PagePool> pool) : PagedDecoding(std::move(pool)), model_(model) {}

  void add_rows(std::span<const NewRow> rows) override {
    for (const NewRow& row : rows) {
      rows_.push_back({.own = PageTable(pool_, true)});
      rows_.back().own.reuse(row.prompt);
    }
  }

 protected:
  Tensor forward(const Tensor& ids, PagedStep& step) override {
    Tensor x = model_.embedding.forward(ids);
    x = at_positions(x, position_rows(model_.positions, model_.waves, step.longest()), step);
    const auto& layers = model_.layers.layers;
    for (size_t i = 0; i < layers.size(); ++i) {
      x = paged_layer(layers[i], x, static_cast<int64_t>(i), step, layer_path("stack", i));
    }
    return x;
  }
  Tensor head_input(const Tensor& x) const override { return model_.layers.norm->forward(x); }
  Tensor logits(const Tensor& x) const override { return model_.head().logits(head_input(x)); }
  Tensor device_logits(DevicePagedStep& step, const Tensor& last, const Tensor& target) override {
    const Tensor& tokens = model_.embedding.weight;
    if (!table_) table_ = device_positions(model_.positions, model_.waves, context(), tokens.device());
    Tensor x = embed_step(step.ids, tokens, step.positions, table_);
    x = reshape(x, {x.dim(0), 1, x.dim(1)});
    const auto& layers = model_.layers.layers;
    for (size_t i = 0; i < layers.size(); ++i) {
      x = device_paged_layer(layers[i], x, static_cast<int64_t>(i), step, layer_path("stack", i));
    }
    if (last && last.numel() == 0) return {};
    const Head head = model_.head();
    return step_logits(rows_at(x, last), &*model_.layers.norm, {head.weight, head.bias}, target);
  }
  int64_t context() const override { return model_.settings.context; }
  int64_t words() const override { return model_.vocab_size(); }

 private:
  const Gpt& model_;
  Tensor table_;  // of positions, on a GPU
};

class PagedTransformer final : public PagedDecoding {
 public:
  PagedTransformer(const TransformerModel& model, std::shared_ptr<PagePool> pool)
      : PagedDecoding(std::move(pool)), model_(model) {}

  void add_rows(std::span<const NewRow> rows) override {
    if (rows.empty()) return;
    const NoGrad scope;
    int64_t longest = 0;
    std::vector<int64_t> lengths, ids;
    for (const NewRow& row : rows) longest = std::max(longest, std::ssize(row.source));
    std::vector<std::shared_ptr<PageTable>> tables;
    std::vector<MemoryRow> memories;
    for (const NewRow& row : rows) {
      lengths.push_back(std::ssize(row.source));
      ids.insert(ids.end(), row.source.begin(), row.source.end());
      ids.resize(static_cast<size_t>(std::ssize(lengths) * longest));
      tables.push_back(std::make_shared<PageTable>(pool_));
      tables.back()->extend(lengths.back());
      memories.push_back({lengths.back(), tables.back().get()});
    }
    const bool is_padded = std::ranges::any_of(lengths, [&](int64_t length) { return length != longest; });
    const Tensor memory = model_.encode(tensor(ids, {std::ssize(rows), longest}),
                                        is_padded ? tensor(lengths, {std::ssize(rows)}) : Tensor{});
    const auto& layers = model_.decoder.layers;
    const Tensor places = model_.device() == kCpu ? Tensor{} : places_of(memories, longest);
    for (size_t i = 0; i < layers.size(); ++i) {
      const auto index = static_cast<int64_t>(i);
      places ? write_device_memory(layers[i], memory, index, *pool_, places)
             : write_memory(layers[i], memory, index, memories);
    }
    for (size_t row = 0; row < rows.size(); ++row) {
      tables[row]->written(rows[row].source);
      rows_.push_back({.own = PageTable(pool_), .memory = std::move(tables[row])});
    }
  }

 protected:
  Tensor forward(const Tensor& ids, PagedStep& step) override {
    Tensor x = target_embedding().forward(ids);
    if (model_.settings.scale_embedding) x = x * std::sqrt(static_cast<double>(model_.settings.dim));
    x = at_positions(x, position_rows(model_.target_positions, model_.waves, step.longest()), step);
    if (model_.target_norm) x = model_.target_norm->forward(x);
    step.bias = distance_bias(step);
    const auto& layers = model_.decoder.layers;
    for (size_t i = 0; i < layers.size(); ++i) {
      x = paged_layer(layers[i], x, static_cast<int64_t>(i), step, layer_path("decoder", i));
    }
    return x;
  }
  Tensor head_input(const Tensor& x) const override {
    const Tensor y = model_.decoder.norm ? model_.decoder.norm->forward(x) : x;
    return model_.settings.scale_output ? y * (1 / std::sqrt(static_cast<double>(model_.settings.dim))) : y;
  }
  Tensor logits(const Tensor& x) const override { return model_.head().logits(head_input(x)); }
  Tensor device_logits(DevicePagedStep& step, const Tensor& last, const Tensor& target) override {
    const Tensor& tokens = target_embedding().weight;
    if (!table_) table_ = device_positions(model_.target_positions, model_.waves, context(), tokens.device());
    Tensor x = embedding_unchecked(step.ids, tokens);
    if (model_.settings.scale_embedding) x = x * std::sqrt(static_cast<double>(model_.settings.dim));
    if (table_) x = x + embedding_unchecked(step.positions, table_);
    if (model_.target_norm) x = model_.target_norm->forward(x);
    x = reshape(x, {x.dim(0), 1, x.dim(1)});
    const auto& layers = model_.decoder.layers;
    for (size_t i = 0; i < layers.size(); ++i) {
      x = device_paged_layer(layers[i], x, static_cast<int64_t>(i), step, layer_path("decoder", i));
    }
    if (last && last.numel() == 0) return {};
    x = rows_at(x, last);
    const Head head = model_.head();
    const Norm* norm = model_.decoder.norm ? &*model_.decoder.norm : nullptr;
    if (!model_.settings.scale_output) return step_logits(x, norm, {head.weight, head.bias}, target);
    if (norm != nullptr) x = norm->forward(x);
    return step_logits(x * (1 / std::sqrt(static_cast<double>(model_.settings.dim))), nullptr, {head.weight, head.bias},
                       target);
  }
  Tensor device_bias(const PagedStep& step) override {
    const Tensor bias = distance_bias(step);  // [1, heads, tokens, longest]
    if (!bias) return {};
    const Tensor result = zeros({bias.dim(2), bias.dim(1), 1, table_positions(step.tables)}, {.device = bias.device()});
    copy_values(transpose(reshape(bias, {bias.dim(1), bias.dim(2), 1, bias.dim(3)}), 0, 1),
                slice(result, 3, 0, bias.dim(3)));
    return result;
  }
  int64_t context() const override { return model_.settings.context; }
  int64_t words() const override { return target_embedding().weight.dim(0); }

 private:
  const Embedding& target_embedding() const {
    return model_.target_embedding ? *model_.target_embedding : model_.embedding;
  }

  /// The rows of a GPU's pool for the positions of all sources, padded to `longest`.
  Tensor places_of(std::span<const MemoryRow> memories, int64_t longest) const {
    std::vector<int64_t> places;
    for (const MemoryRow& row : memories) {
      for (int64_t position = 0; position < longest; ++position) {
        const bool exists = position < row.length;
        const int32_t page = exists ? row.table->pages()[static_cast<size_t>(position / kPagePositions)] : 0;
        places.push_back(exists ? PagePool::first_row(page) + position % kPagePositions : position % kPagePositions);
      }
    }
    return on_device(tensor(places, {std::ssize(places)}), model_.device());
  }

  /// The relative bias of each token: the end of a row for the distances …, −2, −1, 0 that all tokens share.
  Tensor distance_bias(const PagedStep& step) {
    if (!model_.target_distances) return {};
    const int64_t longest = step.longest(), heads = model_.target_distances->weight.dim(1);
    if (!distance_row_ || distance_row_.dim(3) < longest) {
      const int64_t room = std::max<int64_t>(2 * longest, 32);
      distance_row_ = model_.target_distances->forward({.queries = 1, .keys = room, .first = room - 1});
    }
    const int64_t room = distance_row_.dim(3);
    const Tensor result = zeros({1, heads, step.tokens(), longest},
                                {.device = distance_row_.device()});  // 0 after a token's own position
    for (int64_t token = 0; token < step.tokens(); ++token) {
      const int64_t keys = step.positions[static_cast<size_t>(token)] + 1;
      copy_values(slice(distance_row_, 3, room - keys, room), slice(slice(result, 2, token, token + 1), 3, 0, keys));
    }
    return result;
  }

  const TransformerModel& model_;
  Tensor distance_row_;  // [1, heads, 1, capacity]
  Tensor table_;         // of positions, on a GPU
};

/// Whether the kernels of a step on a GPU read the weights in place.
bool is_for_steps(const Tensor& weight) {
  return is_reduced(weight) || (weight.dtype() == DType::f32 && current_precision() == Precision::f32);
}

}  // namespace

/// Makes room for the tokens of the readings.
DescribedStep PagedDecoding::describe(std::span<const RowReading> readings) {
  DescribedStep result{.step = {.layout = pool_->layout()}};
  PagedStep& step = result.step;
  std::vector<int64_t>&ids = result.ids, &last = result.last;
  const PageTable* source = nullptr;
  for (const RowReading& reading : readings) {
    Row& row = rows_[static_cast<size_t>(reading.row)];
    const int64_t count = std::ssize(reading.ids), held = row.own.held();
    check_length("search", held + count, context());
    require<ShapeError>(reading.drafted == 0 || !device_steps_, "PagedDecoding: a GPU reads no guesses");
    row.own.extend(count);
    for (int64_t i = 0; i < count; ++i) {
      ids.push_back(reading.ids[static_cast<size_t>(i)]);
      step.positions.push_back(held + i);
    }
    step.offsets.push_back(std::ssize(ids));
    step.tables.push_back(&row.own);
    if (row.memory && row.memory.get() == source) step.memory_offsets.pop_back();
    if (row.memory && row.memory.get() != source) step.memories.push_back(row.memory.get());
    if (row.memory) step.memory_offsets.push_back(std::ssize(ids));
    source = row.memory.get();
    for (int64_t i = reading.needs_logits ? reading.drafted : -1; i >= 0; --i) last.push_back(std::ssize(ids) - 1 - i);
  }
  return result;
}

void PagedDecoding::note_written(std::span<const RowReading> readings) {
  for (const RowReading& reading : readings) {
    const auto known = reading.ids.size() - static_cast<size_t>(reading.drafted);
    rows_[static_cast<size_t>(reading.row)].own.written(reading.ids.first(known));
  }
}

Tensor PagedDecoding::step(std::span<const RowReading> readings, std::vector<TracedRows>& traced) {
  const NoGrad scope;
  DescribedStep described = describe(readings);
  PagedStep& step = described.step;
  step.traced = std::move(traced);
  const std::vector<int64_t>& ids = described.ids;
  Tensor x, result;
  if (device_steps_) {
    const int64_t most = words();
    for (const int64_t id : ids) {
      require<ShapeError>(id >= 0 && id < most, "embedding: index ", id, " is outside 0 to ", most - 1);
    }
    step.bias = device_bias(step);
    result = device_steps_->run(described, !step.bias);
  } else {
    x = forward(tensor(ids, {1, std::ssize(ids)}), step);
  }
  note_written(readings);
  traced = std::move(step.traced);
  if (device_steps_) return result;
  const std::vector<int64_t>& last = described.last;
  return last.empty() ? Tensor{} : logits(select_rows(reshape(x, {x.dim(1), x.dim(2)}), last));
}

Tensor PagedDecoding::hidden(std::span<const RowReading> readings) {
  require<ShapeError>(!device_steps_, "PagedDecoding: hidden() is for the CPU");
  const NoGrad scope;
  DescribedStep described = describe(readings);
  const Tensor x = forward(tensor(described.ids, {1, std::ssize(described.ids)}), described.step);
  note_written(readings);
  return head_input(reshape(x, {x.dim(1), x.dim(2)}));
}

void PagedDecoding::accept(int64_t row, std::span<const int32_t> ids) {
  PageTable& own = rows_[static_cast<size_t>(row)].own;
  own.written(ids);
  own.trim();
}

void PagedDecoding::select(std::span<const int64_t> order) {
  std::vector<int64_t> uses(rows_.size(), 0);
  for (const int64_t row : order) ++uses[static_cast<size_t>(row)];
  std::vector<Row> rows;
  rows.reserve(order.size());
  for (const int64_t from : order) {
    Row& row = rows_[static_cast<size_t>(from)];
    if (--uses[static_cast<size_t>(from)] == 0)
      rows.push_back(std::move(row));
    else
      rows.push_back(row);
  }
  rows_ = std::move(rows);
}

int64_t PagedDecoding::pages_for(const NewRow& row, int64_t rows, int64_t limit) {
  const int64_t prompt = std::ssize(row.prompt), longest = PageTable::pages_for(prompt + limit);
  const int64_t shared = rows > 1 ? prompt / kPagePositions : 0;  // by all hypotheses
  // While a shared page is copied, there is one page more.
  return PageTable::pages_for(std::ssize(row.source)) + shared + rows * (longest - shared) + (rows > 1 ? 1 : 0);
}

bool has_keys_and_values(const Model& model) {
  return dynamic_cast<const Gpt*>(&model) != nullptr || dynamic_cast<const TransformerModel*>(&model) != nullptr;
}

std::unique_ptr<PagedDecoding> start_paged(const Model& model, std::shared_ptr<PagePool> pool,
                                           std::optional<DType> cache_type) {
  const Device device = model.device();
  const auto has_pages = [&](const Tensor& weight) {
    return device == kCpu ? weight.dtype() != DType::f64 : is_for_steps(weight);
  };
  const auto set_layout = [&](const MultiheadAttention& attention, int64_t layers) {
    const DType dtype = cache_type.value_or(default_cache_type(attention.key.weight));
    pool->set_layout(page_layout(attention, dtype), layers, device);
  };
  std::unique_ptr<PagedDecoding> result;
  if (const auto* gpt = dynamic_cast<const Gpt*>(&model); gpt && has_pages(gpt->embedding.weight)) {
    set_layout(gpt->layers.layers[0].attention, std::ssize(gpt->layers.layers));
    result = std::make_unique<PagedGpt>(*gpt, std::move(pool));
  } else if (const auto* pair = dynamic_cast<const TransformerModel*>(&model);
             pair && has_pages(pair->embedding.weight)) {
    set_layout(pair->decoder.layers[0].attention, std::ssize(pair->decoder.layers));
    result = std::make_unique<PagedTransformer>(*pair, std::move(pool));
  }
  if (!result || device == kCpu) return result;
  result->device_steps_ = std::make_unique<DeviceSteps>(
      *result->pool_, device, [own = result.get()](DevicePagedStep& step, const Tensor& last, const Tensor& target) {
        return own->device_logits(step, last, target);
      });
  return result;
}

}  // namespace attend
