#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "attend/inspect/tokens.h"
#include "attend/models/model.h"

namespace attend {

struct PlanePoint {
  int32_t id = 0;  ///< token id or position
  std::string text;
  double x = 0, y = 0;
};
/// Vectors projected to their first two principal components.
struct Plane {
  std::vector<PlanePoint> points;
  std::array<double, 2> explained{};  ///< fraction of the variance that each component explains
};

/// Projects the embeddings of the first `limit` tokens. Throws ShapeError unless 1 ≤ limit ≤ 20,000.
Plane token_plane(const Model& model, const Tokenizer& tokenizer, int64_t limit = 2000);
/// Projects learned or sinusoidal position vectors. Throws Error if the model has no position vectors.
Plane position_plane(const Model& model, int64_t limit = 2000);

struct TokenNeighbour {
  ShownToken token;
  double value = 0;
};
struct TokenNeighbours {
  ShownToken token;
  std::vector<TokenNeighbour> dot, cosine;  ///< by dot product and by cosine, descending, without the token itself
};
/// The tokens whose embeddings are most similar to that of `id`. Throws ShapeError for an id out of range, or unless 1
/// ≤ count ≤ 100.
TokenNeighbours token_neighbours(const Model& model, const Tokenizer& tokenizer, int32_t id, int64_t count = 12);

}  // namespace attend
