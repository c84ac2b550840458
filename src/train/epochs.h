#pragma once

#include <span>

#include "attend/data/batches.h"

namespace attend {

/// The batches of a plan, numbered across epochs. Holds the lists of one epoch at a time. Not thread-safe.
class Epochs {
 public:
  Epochs(const TokenCache& cache, std::span<const int64_t> examples, const BatchOptions& options)
      : plan_(cache, examples, options) {}
  const BatchPlan& plan() const { return plan_; }

  /// Examples of batch `index`; valid until the next call.
  std::span<const int64_t> batch(int64_t index) const {
    const int64_t epoch = index / plan_.batches();
    if (epoch != held_) held_ = epoch, lists_ = plan_.epoch(epoch);
    return lists_[index % plan_.batches()];
  }

 private:
  BatchPlan plan_;
  mutable int64_t held_ = -1;
  mutable Batches lists_;
};

}  // namespace attend
