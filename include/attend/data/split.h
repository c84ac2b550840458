#pragma once

#include <cstdint>
#include <vector>

namespace attend {

struct SplitOptions {
  double validation =
      0.02;                ///< fraction of examples for validation, rounded to the nearest number; at least one example
  int64_t at_most = 2000;  ///< maximum number of validation examples
  uint64_t seed = 0;
};

/// Example indices, each list in ascending order.
struct Split {
  std::vector<int64_t> training;
  std::vector<int64_t> validation;
};

/// Splits `count` examples at random. The same seed gives the same split. Throws ShapeError for fewer than two
/// examples, or a fraction outside (0, 1).
Split split_examples(int64_t count, const SplitOptions& options = {});

}  // namespace attend
