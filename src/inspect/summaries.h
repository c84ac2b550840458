#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>

#include "attend/inspect/heads.h"

namespace attend {

/// A cache of the most recently used summaries, bounded in bytes.
class HeadSummaries {
 public:
  std::shared_ptr<const HeadSummary> find(int64_t attention, int64_t head);
  void add(int64_t attention, int64_t head, std::shared_ptr<const HeadSummary> summary);

 private:
  struct Entry {
    int64_t attention, head;
    std::shared_ptr<const HeadSummary> summary;
  };
  std::mutex mutex_;
  std::list<Entry> entries_;  // most recently used first
};

/// Calls visit(rows, weights) for a few rows at a time, over all rows in the range. `weights` is [heads, rows, keys].
void sweep_rows(const RunAttention& attention, const std::vector<int64_t>& heads, RowRange rows,
                const std::function<void(RowRange rows, std::span<const float> weights)>& visit);

/// −Σ w ln w of one row of weights.
double entropy_of(std::span<const float> weights);

const RunAttention& attention_at(const Run& run, int64_t attention);
void check_head(const RunAttention& attention, int64_t head);

}  // namespace attend
