#include "models/device_steps.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"
#include "ops/generation.h"

namespace attend {
namespace {

int64_t rounded_rows(int64_t rows) {
  const int64_t unit = rows <= 8 ? 1 : rows <= 64 ? 8 : 32;
  return (rows + unit - 1) / unit * unit;
}

/// The sizes of the parts of a step's numbers, and where they begin in one tensor.
struct Layout {
  int64_t tokens = 0, rows = 0, width = 0, sources = 0, memory_width = 0, runs = 0, memory_runs = 0, last = 0;

  struct Part {
    int64_t begin = 0, size = 0;
  };
  Part ids{}, positions{}, lengths{}, places{}, table_rows{}, all_runs{}, tables{}, memory_lengths{}, memory_rows{},
      all_memory_runs{}, memory_tables{}, all_last{};

  void place() {
    int64_t next = 0;
    const auto put = [&](Part& part, int64_t size) { part = {std::exchange(next, next + size), size}; };
    for (Part* part : {&ids, &positions, &lengths, &places, &table_rows}) put(*part, tokens);
    put(all_runs, runs + 1);
    put(tables, rows * width);
    for (Part* part : {&memory_lengths, &memory_rows}) put(*part, sources > 0 ? tokens : 0);
    put(all_memory_runs, sources > 0 ? memory_runs + 1 : 0);
    put(memory_tables, sources * memory_width);
    put(all_last, last);
  }
  int64_t total() const { return all_last.begin + all_last.size; }
};

int64_t runs_of(const std::vector<int64_t>& offsets, int64_t longest) {
  int64_t count = 0;
  for (size_t i = 1; i < offsets.size(); ++i) count += (offsets[i] - offsets[i - 1] + longest - 1) / longest;
  return count;
}

/// Writes numbers one after the other into a part. The rest of the part stays 0.
class PartWriter {
 public:
  PartWriter(std::vector<int64_t>& numbers, const Layout::Part& part) : next_(numbers.data() + part.begin) {}
  void put(int64_t number) { *next_++ = number; }
  void put(std::span<const int64_t> all) { next_ = std::ranges::copy(all, next_).out; }
  /// A table of `width` pages; page 0 of the pool's memory where there is none.
  void put_table(std::span<const int32_t> pages, int64_t width) {
    for (size_t i = 0; i < pages.size(); ++i) next_[i] = PagePool::first_row(pages[i]) / kPagePositions;
    next_ += width;
  }
  /// The ends of runs of up to `longest` tokens of [begin, end).
  void put_runs(int64_t begin, int64_t end, int64_t longest) {
    for (int64_t at = begin; at < end; at += longest) put(std::min(at + longest, end));
  }

 private:
  int64_t* next_;
};

/// Describes a step in numbers. A repeated step has a run for each row, and more rows than there are, up to `tokens`:
/// these read token 0 at position 0 and write to the memory that belongs to no page.
Layout describe(const DescribedStep& described, int64_t tokens, bool is_repeated, std::vector<int64_t>& numbers) {
  const PagedStep& step = described.step;
  const int64_t longest = is_repeated ? 1 : kRunTokens, added = tokens - step.tokens();
  const bool has_memory = !step.memories.empty();
  Layout layout{.tokens = tokens,
                .rows = is_repeated ? tokens : std::ssize(step.tables),
                .width = table_positions(step.tables) / kPagePositions,
                .runs = runs_of(step.offsets, longest) + added,
                .last = is_repeated ? 0 : std::ssize(described.last)};
  if (has_memory) {
    layout.sources = is_repeated ? tokens : std::ssize(step.memories);
    layout.memory_width = table_positions(step.memories) / kPagePositions;
    layout.memory_runs = runs_of(step.memory_offsets, longest) + added;
  }
  layout.place();
  numbers.assign(static_cast<size_t>(layout.total()), 0);
  const auto writer = [&](const Layout::Part& part) { return PartWriter(numbers, part); };
  writer(layout.ids).put(described.ids);
  writer(layout.positions).put(step.positions);
  writer(layout.all_last).put(std::span(described.last).first(static_cast<size_t>(layout.last)));
  PartWriter lengths = writer(layout.lengths), places = writer(layout.places), table_rows = writer(layout.table_rows),
             runs = writer(layout.all_runs), tables = writer(layout.tables);
  runs.put(0);
  for (size_t row = 0; row < step.tables.size(); ++row) {
    const std::span<const int32_t> pages = step.tables[row]->pages();
    for (int64_t token = step.offsets[row]; token < step.offsets[row + 1]; ++token) {
      const int64_t position = step.positions[static_cast<size_t>(token)];
      lengths.put(position + 1);
      places.put(PagePool::first_row(pages[static_cast<size_t>(position / kPagePositions)]) +
                 position % kPagePositions);
      table_rows.put(static_cast<int64_t>(row));
    }
    runs.put_runs(step.offsets[row], step.offsets[row + 1], longest);
    tables.put_table(pages, layout.width);
  }
  PartWriter memory_lengths = writer(layout.memory_lengths), memory_rows = writer(layout.memory_rows),
             memory_runs = writer(layout.all_memory_runs), memory_tables = writer(layout.memory_tables);
  if (has_memory) memory_runs.put(0);
  for (size_t source = 0; source < step.memories.size(); ++source) {
    const int64_t begin = step.memory_offsets[source], end = step.memory_offsets[source + 1];
    for (int64_t token = begin; token < end; ++token) {
      memory_lengths.put(step.memories[source]->held());
      memory_rows.put(static_cast<int64_t>(source));
    }
    memory_runs.put_runs(begin, end, longest);
    memory_tables.put_table(step.memories[source]->pages(), layout.memory_width);
  }
  for (int64_t token = step.tokens(); token < tokens; ++token) {
    lengths.put(1);
    table_rows.put(layout.rows - 1);
    runs.put(token + 1);
    if (!has_memory) continue;
    memory_rows.put(layout.sources - 1);
    memory_runs.put(token + 1);
  }
  return layout;
}

/// The step on the device. Its tensors are parts of `numbers`.
DevicePagedStep device_step(const Layout& layout, const Tensor& numbers, const PagePool& pool) {
  const auto part = [&](const Layout::Part& of) { return numbers.as_strided({of.size}, {1}, of.begin); };
  const auto table = [&](const Layout::Part& of, int64_t rows, int64_t width) {
    return numbers.as_strided({rows, width}, {width, 1}, of.begin);
  };
  DevicePagedStep step{.pool = &pool,
                       .ids = part(layout.ids),
                       .positions = part(layout.positions),
                       .places = part(layout.places),
                       .own = {.tables = table(layout.tables, layout.rows, layout.width),
                               .table_rows = part(layout.table_rows),
                               .lengths = part(layout.lengths),
                               .runs = part(layout.all_runs)}};
  if (layout.memory_width > 0) {
    step.memory = {.tables = table(layout.memory_tables, layout.sources, layout.memory_width),
                   .table_rows = part(layout.memory_rows),
                   .lengths = part(layout.memory_lengths),
                   .runs = part(layout.all_memory_runs)};
  }
  return step;
}

}  // namespace

int64_t table_positions(const std::vector<const PageTable*>& tables) {
  uint64_t most = kTablePositions / kPagePositions;
  for (const PageTable* table : tables) most = std::max<uint64_t>(most, table->pages().size());
  return static_cast<int64_t>(std::bit_ceil(most)) * kPagePositions;
}

Tensor DeviceSteps::repeat(const DescribedStep& described) {
  constexpr size_t kMostGraphs = 48;
  if (version_ != pool_.version() || repeated_.size() > kMostGraphs) repeated_.clear();
  version_ = pool_.version();
  const int64_t rows = std::ssize(described.ids), rounded = rounded_rows(rows);
  const Layout layout = describe(described, rounded, true, numbers_);
  Repeated& repeated = repeated_[{rounded, layout.width, layout.memory_width}];
  if (!repeated.numbers) repeated.numbers = empty({layout.total()}, {DType::i64, device_});
  upload_numbers(numbers_, repeated.numbers);
  const Tensor logits = repeated.graph.run(device_, [&](const Tensor& target) {
    DevicePagedStep step = device_step(layout, repeated.numbers, pool_);
    return forward_(step, {}, target);
  });
  return rows == rounded ? logits : slice(logits, 0, 0, rows);
}

Tensor DeviceSteps::run(DescribedStep& described, bool may_repeat) {
  pool_.flush();
  const bool is_plain = described.step.traced.empty() && described.last.size() == described.ids.size();
  if (may_repeat && is_plain) return repeat(described);
  const Layout layout = describe(described, std::ssize(described.ids), false, numbers_);
  const Tensor numbers = empty({layout.total()}, {DType::i64, device_});
  upload_numbers(numbers_, numbers);
  DevicePagedStep step = device_step(layout, numbers, pool_);
  step.bias = described.step.bias;
  step.described = &described.step;
  step.traced = std::move(described.step.traced);
  const bool needs_all = described.last.size() == described.ids.size();
  const Tensor last = needs_all ? Tensor{} : numbers.as_strided({layout.last}, {1}, layout.all_last.begin);
  const Tensor logits = forward_(step, last, {});
  described.step.traced = std::move(step.traced);
  return described.last.empty() ? Tensor{} : logits;
}

}  // namespace attend
