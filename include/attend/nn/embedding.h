#pragma once

#include "attend/base/random.h"
#include "attend/nn/parameters.h"

namespace attend {

struct EmbeddingConfig {
  int64_t rows = 0;
  int64_t dim = 0;
  double deviation = 1;  ///< of the normal distribution the vectors start from
};

/// A vector for each id: weight [rows, dim].
struct Embedding {
  Tensor weight;

  static Embedding create(const EmbeddingConfig& config, Rng& rng);
  /// ids (i64, any shape) give […, dim].
  Tensor forward(const Tensor& ids) const;

  static void fields(auto&& visit) { visit("weight", &Embedding::weight); }
};

struct LearnedPositionsConfig {
  int64_t length = 0;
  int64_t dim = 0;
  double deviation = 0.02;
};

/// A learned vector for each position, to be added to the embeddings: weight [length, dim].
struct LearnedPositions {
  Tensor weight;

  static LearnedPositions create(const LearnedPositionsConfig& config, Rng& rng);
  /// x[…, length, dim] plus the vectors of positions offset … offset + length − 1; throws ShapeError beyond the table.
  Tensor forward(const Tensor& x, int64_t offset = 0) const;

  static void fields(auto&& visit) { visit("weight", &LearnedPositions::weight); }
};

}  // namespace attend
