#include "attend/data/split.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "attend/base/error.h"
#include "data/shuffle.h"

namespace attend {
namespace {

/// Number of validation examples: at least one, and at least one is left for training.
int64_t validation_count(int64_t count, const SplitOptions& options) {
  const auto share = static_cast<int64_t>(std::llround(static_cast<double>(count) * options.validation));
  return std::clamp<int64_t>(std::min(share, options.at_most), 1, count - 1);
}

}  // namespace

Split split_examples(int64_t count, const SplitOptions& options) {
  require<ShapeError>(count >= 2, "split: expected at least 2 examples, got ", count);
  require<ShapeError>(options.validation > 0 && options.validation < 1, "split: expected a share between 0 and 1, got ",
                      options.validation);
  const RandomSource random{options.seed, DataStream::split};
  Split split;
  // Selects k of n in order: each example is taken with probability (number still wanted) / (number remaining).
  int64_t wanted = validation_count(count, options);
  split.validation.reserve(static_cast<size_t>(wanted));
  split.training.reserve(static_cast<size_t>(count - wanted));
  for (int64_t example = 0; example < count; ++example) {
    const auto to_come = static_cast<uint64_t>(count - example), number = static_cast<uint64_t>(example);
    const bool taken = random.below(to_come, number) < static_cast<uint64_t>(wanted);
    if (taken) --wanted;
    (taken ? split.validation : split.training).push_back(example);
  }
  return split;
}

}  // namespace attend
