#include "models/paged_decoding.h"

#include <algorithm>
#include <cmath>

#include "attend/autograd/autograd.h"
#include "attend/models/gpt.h"
#include "attend/models/transformer_model.h"
#include "attend/nn/cache.h"
#include "attend/ops/arithmetic.h"
#include "attend/ops/embedding.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"
#include "models/position_table.h"

namespace attend {
namespace {

/// x [1, tokens, dim] plus the rows of `table` at the step's positions; x if the table is empty.
Tensor at_positions(const Tensor& x, const Tensor& table, const PagedStep& step) {
  return table ? x + embedding(tensor(step.positions, {1, step.tokens()}), table) : x;
}

std::string layer_path(const char* stack, size_t index) {
  return std::string(stack) + ".layers." + std::to_string(index);
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
  Tensor logits(const Tensor& x) const override { return model_.head().logits(model_.layers.norm->forward(x)); }
  int64_t context() const override { return model_.settings.context; }

 private:
  const Gpt& model_;
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
    for (size_t i = 0; i < layers.size(); ++i) write_memory(layers[i], memory, static_cast<int64_t>(i), memories);
    for (size_t row = 0; row < rows.size(); ++row) {
      tables[row]->written(rows[row].source);
      rows_.push_back({.own = PageTable(pool_), .memory = std::move(tables[row])});
    }
  }

 protected:
  Tensor forward(const Tensor& ids, PagedStep& step) override {
    Tensor x = (model_.target_embedding ? *model_.target_embedding : model_.embedding).forward(ids);
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
  Tensor logits(const Tensor& x) const override {
    Tensor y = model_.decoder.norm ? model_.decoder.norm->forward(x) : x;
    if (model_.settings.scale_output) y = y * (1 / std::sqrt(static_cast<double>(model_.settings.dim)));
    return model_.head().logits(y);
  }
  int64_t context() const override { return model_.settings.context; }

 private:
  /// The relative bias of each token: the end of a row for the distances …, −2, −1, 0 that all tokens share.
  Tensor distance_bias(const PagedStep& step) {
    if (!model_.target_distances) return {};
    const int64_t longest = step.longest(), heads = model_.target_distances->weight.dim(1);
    if (!distance_row_ || distance_row_.dim(3) < longest) {
      const int64_t room = std::max<int64_t>(2 * longest, 32);
      distance_row_ = model_.target_distances->forward({.queries = 1, .keys = room, .first = room - 1});
    }
    const int64_t room = distance_row_.dim(3);
    const Tensor result = zeros({1, heads, step.tokens(), longest});  // 0 after a token's own position
    for (int64_t token = 0; token < step.tokens(); ++token) {
      const int64_t keys = step.positions[static_cast<size_t>(token)] + 1;
      copy_values(slice(distance_row_, 3, room - keys, room), slice(slice(result, 2, token, token + 1), 3, 0, keys));
    }
    return result;
  }

  const TransformerModel& model_;
  Tensor distance_row_;  // [1, heads, 1, capacity]
};

}  // namespace

Tensor PagedDecoding::step(std::span<const RowReading> readings, std::vector<TracedRows>& traced) {
  const NoGrad scope;
  std::vector<int64_t> ids, last;
  PagedStep step{.layout = pool_->layout(), .traced = std::move(traced)};
  const PageTable* source = nullptr;
  for (const RowReading& reading : readings) {
    Row& row = rows_[static_cast<size_t>(reading.row)];
    const int64_t count = std::ssize(reading.ids), held = row.own.held();
    check_length("search", held + count, context());
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
    if (reading.needs_logits) last.push_back(std::ssize(ids) - 1);
  }
  const Tensor x = forward(tensor(ids, {1, std::ssize(ids)}), step);
  for (const RowReading& reading : readings) rows_[static_cast<size_t>(reading.row)].own.written(reading.ids);
  traced = std::move(step.traced);
  return last.empty() ? Tensor{} : logits(select_rows(reshape(x, {x.dim(1), x.dim(2)}), last));
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

std::unique_ptr<PagedDecoding> start_paged(const Model& model, std::shared_ptr<PagePool> pool) {
  if (model.device() != kCpu) return nullptr;
  if (const auto* gpt = dynamic_cast<const Gpt*>(&model); gpt && gpt->embedding.weight.dtype() != DType::f64) {
    pool->set_layout(page_layout(gpt->layers.layers[0].attention), std::ssize(gpt->layers.layers));
    return std::make_unique<PagedGpt>(*gpt, std::move(pool));
  }
  if (const auto* pair = dynamic_cast<const TransformerModel*>(&model);
      pair && pair->embedding.weight.dtype() != DType::f64) {
    pool->set_layout(page_layout(pair->decoder.layers[0].attention), std::ssize(pair->decoder.layers));
    return std::make_unique<PagedTransformer>(*pair, std::move(pool));
  }
  return nullptr;
}

}  // namespace attend
