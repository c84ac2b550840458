#pragma once

#include <string>
#include <vector>

#include "attend/tensor/tensor.h"

namespace attend::cli {

struct ExplainOptions {
  int64_t dim = 4;
  int64_t heads = 1;  ///< divides dim
  bool causal = true;
  bool trainable = false;  ///< queries, keys and values by random matrices instead of x itself
  bool positions = false;  ///< adds the sinusoidal position to each vector
  uint64_t seed = 0;
};

/// One head's part of the computation, for `length` tokens. All f64.
struct HeadSteps {
  Tensor queries, keys, values;          // [length, dim / heads]
  Tensor dots, scaled, masked, weights;  // [length, length]
  Tensor context;                        // [length, dim / heads]
};

/// Every number of attention over a sentence, in the order one computes them.
struct ExplainSteps {
  std::vector<std::string> tokens;
  ExplainOptions options;
  double scale = 1;
  Tensor embeddings, positions, x;                               // [length, dim]; positions may be empty
  Tensor query_matrix, key_matrix, value_matrix, output_matrix;  // [dim, dim], or empty
  std::vector<HeadSteps> heads;
  Tensor joined;  // [length, dim]: the heads' contexts side by side
  Tensor output;  // joined, times the output matrix where there is one
};

/// Uses the library's own ops: the weights and contexts are those of the fused attention.
ExplainSteps explain_steps(std::vector<std::string> tokens, const ExplainOptions& options);

}  // namespace attend::cli
