#pragma once

#include "attend/base/random.h"
#include "attend/nn/parameters.h"

namespace attend {

struct EmbeddingConfig {
  int64_t rows = 0;
  int64_t dim = 0;
  double deviation = 1;  ///< standard deviation of the normal distribution of the initial vectors
};

/// A learned vector for each id: weight [rows, dim].
struct Embedding {
  Tensor weight;

  static Embedding create(const EmbeddingConfig& config, Rng& rng);
  /// Maps ids (i64, any shape) to vectors […, dim].
  Tensor forward(const Tensor& ids) const;

  static void fields(auto&& visit) { visit("weight", &Embedding::weight); }
};

struct LearnedPositionsConfig {
  int64_t length = 0;
  int64_t dim = 0;
  double deviation = 0.02;
};

/// Learned position embeddings: weight [length, dim].
struct LearnedPositions {
  Tensor weight;

  static LearnedPositions create(const LearnedPositionsConfig& config, Rng& rng);
  /// x[…, length, dim] plus the vectors of positions offset … offset + length − 1. Throws ShapeError if a position is
  /// outside the table.
  Tensor forward(const Tensor& x, int64_t offset = 0) const;

  static void fields(auto&& visit) { visit("weight", &LearnedPositions::weight); }
};

}  // namespace attend
