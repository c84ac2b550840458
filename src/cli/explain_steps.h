#pragma once

#include <string>
#include <vector>

#include "attend/tensor/tensor.h"

namespace attend::cli {

struct ExplainOptions {
  int64_t dim = 4;
  int64_t heads = 1;  ///< divides dim
  bool causal = true;
  bool trainable = false;  ///< compute queries, keys and values with random matrices instead of using x itself
  bool positions = false;  ///< add sinusoidal positions to the vectors
  uint64_t seed = 0;
};

/// One head's part of the computation, for `length` tokens. All f64.
struct HeadSteps {
  Tensor queries, keys, values;          // [length, dim / heads]
  Tensor dots, scaled, masked, weights;  // [length, length]
  Tensor context;                        // [length, dim / heads]
};

/// Every number of attention over a sentence, in the order of computation.
struct ExplainSteps {
  std::vector<std::string> tokens;
  ExplainOptions options;
  double scale = 1;
  Tensor embeddings, positions, x;                               // [length, dim]; positions may be empty
  Tensor query_matrix, key_matrix, value_matrix, output_matrix;  // [dim, dim], or empty
  std::vector<HeadSteps> heads;
  Tensor joined;  // [length, dim]: the heads' contexts side by side
  Tensor output;  // joined, multiplied by the output matrix if there is one
};

/// Uses the library's own ops: weights and contexts come from the fused attention.
ExplainSteps explain_steps(std::vector<std::string> tokens, const ExplainOptions& options);

}  // namespace attend::cli
