#include "attend/nn/embedding.h"

#include "attend/nn/init.h"
#include "attend/ops/arithmetic.h"
#include "attend/ops/embedding.h"
#include "attend/ops/shape.h"

namespace attend {

Embedding Embedding::create(const EmbeddingConfig& config, Rng& rng) {
  require<ShapeError>(config.rows >= 1 && config.dim >= 1, "Embedding: rows and dim must be at least 1, got ",
                      config.rows, " and ", config.dim);
  return {normal_parameter({config.rows, config.dim}, config.deviation, rng)};
}

Tensor Embedding::forward(const Tensor& ids) const { return embedding(ids, weight); }

LearnedPositions LearnedPositions::create(const LearnedPositionsConfig& config, Rng& rng) {
  require<ShapeError>(config.length >= 1 && config.dim >= 1,
                      "LearnedPositions: length and dim must be at least 1, got ", config.length, " and ", config.dim);
  return {normal_parameter({config.length, config.dim}, config.deviation, rng)};
}

Tensor LearnedPositions::forward(const Tensor& x, int64_t offset) const {
  require<ShapeError>(x.rank() >= 2 && x.dim(-1) == weight.dim(1), "LearnedPositions: expected x of shape […, length, ",
                      weight.dim(1), "], got ", x.shape());
  const int64_t end = offset + x.dim(-2);
  require<ShapeError>(offset >= 0 && end <= weight.dim(0), "LearnedPositions: positions ", offset, " to ", end - 1,
                      " are outside the table of ", weight.dim(0));
  return add(x, slice(weight, 0, offset, end));
}

}  // namespace attend
