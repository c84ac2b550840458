#pragma once

#include <cstdint>
#include <vector>

namespace attend {

struct SplitOptions {
  double validation = 0.02;  ///< share of the examples, rounded to the nearest; at least one
  int64_t at_most = 2000;    ///< examples to validate with
  uint64_t seed = 0;
};

/// Numbers of examples, each list in ascending order.
struct Split {
  std::vector<int64_t> training;
  std::vector<int64_t> validation;
};

/// Takes examples for validation out of `count`, at random but the same for the same seed. Throws ShapeError for fewer
/// than two examples, or a share outside (0, 1).
Split split_examples(int64_t count, const SplitOptions& options = {});

}  // namespace attend
