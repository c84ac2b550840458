#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>

#include "attend/inspect/heads.h"

namespace attend {

/// The summaries asked for last, up to some bytes.
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
  std::list<Entry> entries_;  // the one used last in front
};

/// Calls visit(rows, weights) for the rows of some heads, a few at a time; weights are [heads, rows, keys].
void sweep_rows(const RunAttention& attention, const std::vector<int64_t>& heads, RowRange rows,
                const std::function<void(RowRange rows, std::span<const float> weights)>& visit);

/// −Σ w ln w of one row of weights.
double entropy_of(std::span<const float> weights);

const RunAttention& attention_at(const Run& run, int64_t attention);
void check_head(const RunAttention& attention, int64_t head);

}  // namespace attend
