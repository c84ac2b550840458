#include "inspect/summaries.h"

#include <algorithm>
#include <array>
#include <bit>

#include "attend/base/error.h"
#include "attend/base/threads.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"

namespace attend {
namespace {

constexpr size_t kMostBytes = size_t{32} << 20;  // cache limit per run
constexpr int64_t kGrid = 1024;                  // maximum cells per side
constexpr int64_t kSweepWeights = 3 << 19;       // weights in memory at once: 6 MiB
constexpr int64_t kColumns = 1024;               // columns per task
constexpr size_t kBlock = 512;                   // weights summed in single precision

size_t bytes_of(const HeadSummary& summary) {
  return sizeof(double) * (summary.entropy.size() + summary.row_totals.size() + summary.column_totals.size()) +
         sizeof(float) * summary.grid.size();
}

/// ln x = e ln 2 + 2 artanh((m − 1) / (m + 1)) with x = m · 2^e and m in [2/3, 4/3). Five terms of the series are exact
/// in single precision, and the compiler can vectorise it. The result at 0 is finite, so that 0 · ln 0 is 0.
inline float natural_log(float x) {
  constexpr int32_t kTwoThirds = 0x3f2aaaab;
  const auto bits = std::bit_cast<int32_t>(x);
  const int32_t exponent = (bits - kTwoThirds) >> 23;
  const float m = std::bit_cast<float>(bits - (exponent << 23));
  const float t = (m - 1) / (m + 1), t2 = t * t;
  const float series = 1 + t2 * (1.0f / 3 + t2 * (0.2f + t2 * (1.0f / 7 + t2 * (1.0f / 9))));
  return static_cast<float>(exponent) * 0.69314718f + 2 * t * series;
}

struct RowSums {
  double total = 0, entropy = 0;
};

/// Keeps sixteen partial sums, so that the compiler can vectorise the loop. Partial sums are single precision within a
/// block of kBlock weights, and double across blocks.
RowSums row_sums(std::span<const float> weights) {
  constexpr size_t kLanes = 16;
  RowSums result;
  for (size_t begin = 0; begin < weights.size(); begin += kBlock) {
    const auto block = weights.subspan(begin, std::min(kBlock, weights.size() - begin));
    std::array<float, kLanes> totals{}, logs{};
    size_t i = 0;
    for (; i + kLanes <= block.size(); i += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) {
        const float weight = block[i + lane];
        totals[lane] += weight;
        logs[lane] += weight * natural_log(weight);
      }
    }
    for (; i < block.size(); ++i) totals[0] += block[i], logs[0] += block[i] * natural_log(block[i]);
    for (size_t lane = 0; lane < kLanes; ++lane) {
      result.total += static_cast<double>(totals[lane]);
      result.entropy -= static_cast<double>(logs[lane]);
    }
  }
  result.entropy = std::max(result.entropy, 0.0);
  return result;
}

int64_t grid_level(int64_t longest) {
  int64_t level = 0;
  while (((longest - 1) >> level) + 1 > kGrid) ++level;
  return level;
}

/// Adds some rows of weights, which are 0 from the key `seen` on, to the column totals and to the grid. Sums and maxima
/// go into short per-column buffers first: these loops have no dependency between iterations, so the compiler can
/// vectorise them.
void add_columns(HeadSummary& summary, RowRange rows, int64_t seen, std::span<const float> weights) {
  const int64_t keys = std::ssize(summary.column_totals);
  parallel_ranges(seen, kColumns, [&](int64_t begin, int64_t end) {
    const auto count = static_cast<size_t>(end - begin);
    std::array<float, kColumns> sums{}, largest{};
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const float* from = &weights[static_cast<size_t>((row - rows.begin) * keys + begin)];
      for (size_t i = 0; i < count; ++i) {
        sums[i] += from[i];
        largest[i] = largest[i] < from[i] ? from[i] : largest[i];
      }
      const bool is_last = row + 1 == rows.end || (row + 1) >> summary.level != row >> summary.level;
      if (summary.level == 0 || !is_last) continue;
      float* cells = &summary.grid[static_cast<size_t>((row >> summary.level) * summary.grid_columns)];
      for (size_t i = 0; i < count; ++i) {
        float& cell = cells[(begin + static_cast<int64_t>(i)) >> summary.level];
        cell = std::max(cell, largest[i]);
      }
      largest.fill(0);
    }
    for (size_t i = 0; i < count; ++i) {
      summary.column_totals[static_cast<size_t>(begin) + i] += static_cast<double>(sums[i]);
    }
  });
}

std::shared_ptr<const HeadSummary> summarize(const RunAttention& attention, int64_t head) {
  const int64_t queries = attention.queries(), keys = attention.keys();
  auto summary = std::make_shared<HeadSummary>();
  summary->level = grid_level(std::max(queries, keys));
  summary->entropy.resize(static_cast<size_t>(queries));
  summary->row_totals.resize(static_cast<size_t>(queries));
  summary->column_totals.resize(static_cast<size_t>(keys));
  if (summary->level > 0) {
    summary->grid_rows = ((queries - 1) >> summary->level) + 1;
    summary->grid_columns = ((keys - 1) >> summary->level) + 1;
    summary->grid.resize(static_cast<size_t>(summary->grid_rows * summary->grid_columns));
  }
  // Half of a causal map is 0, and is left out.
  const bool is_triangle = attention.trace.options.causal && queries == keys;
  const auto seen_by = [&](int64_t row) { return is_triangle ? row + 1 : keys; };
  sweep_rows(attention, {head}, {0, queries}, [&](RowRange rows, std::span<const float> weights) {
    parallel_for(rows.end - rows.begin, [&](int64_t i) {
      const auto row = weights.subspan(static_cast<size_t>(i * keys), static_cast<size_t>(seen_by(rows.begin + i)));
      const RowSums sums = row_sums(row);
      summary->row_totals[static_cast<size_t>(rows.begin + i)] = sums.total;
      summary->entropy[static_cast<size_t>(rows.begin + i)] = sums.entropy;
    });
    add_columns(*summary, rows, seen_by(rows.end - 1), weights);
  });
  return summary;
}

}  // namespace

double entropy_of(std::span<const float> weights) { return row_sums(weights).entropy; }

std::shared_ptr<const HeadSummary> HeadSummaries::find(int64_t attention, int64_t head) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(
      entries_, [&](const Entry& entry) { return entry.attention == attention && entry.head == head; });
  if (found == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found);
  return found->summary;
}

void HeadSummaries::add(int64_t attention, int64_t head, std::shared_ptr<const HeadSummary> summary) {
  const std::lock_guard lock(mutex_);
  entries_.push_front({attention, head, std::move(summary)});
  size_t bytes = 0;
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    bytes += bytes_of(*entry->summary);
    entry = bytes > kMostBytes && entry != entries_.begin() ? entries_.erase(entry) : std::next(entry);
  }
}

void sweep_rows(const RunAttention& attention, const std::vector<int64_t>& heads, RowRange rows,
                const std::function<void(RowRange rows, std::span<const float> weights)>& visit) {
  const int64_t count = heads.empty() ? attention.heads() : std::ssize(heads);
  const int64_t step = std::clamp<int64_t>(kSweepWeights / std::max<int64_t>(count * attention.keys(), 1), 1, 768);
  for (int64_t begin = rows.begin; begin < rows.end; begin += step) {
    const RowRange part{begin, std::min(begin + step, rows.end)};
    const Tensor weights = to(to(attention.weights(heads, part), DType::f32), kCpu);
    visit(part, weights.data<const float>());
  }
}

const RunAttention& attention_at(const Run& run, int64_t attention) {
  require<ShapeError>(attention >= 0 && attention < std::ssize(run.attention), "inspect: there is no attention ",
                      attention, "; the run has ", run.attention.size(), ", counted from 0");
  return run.attention[static_cast<size_t>(attention)];
}

void check_head(const RunAttention& attention, int64_t head) {
  require<ShapeError>(head >= 0 && head < attention.heads(), "inspect: there is no head ", head, "; the layer has ",
                      attention.heads(), ", counted from 0");
}

std::shared_ptr<const HeadSummary> head_summary(const Run& run, int64_t attention, int64_t head) {
  const RunAttention& chosen = attention_at(run, attention);
  check_head(chosen, head);
  if (auto known = run.summaries->find(attention, head)) return known;
  auto summary = summarize(chosen, head);
  run.summaries->add(attention, head, summary);
  return summary;
}

}  // namespace attend
