#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "attend/inspect/tokens.h"
#include "attend/models/model.h"

namespace attend {

struct PlanePoint {
  int32_t id = 0;  ///< of the token, or the position
  std::string text;
  double x = 0, y = 0;
};
/// Vectors on the plane in which they differ most: their first two principal components.
struct Plane {
  std::vector<PlanePoint> points;
  std::array<double, 2> explained{};  ///< each component's share of the variance
};

/// The first `limit` tokens of the vocabulary. Throws ShapeError unless 1 ≤ limit ≤ 20,000.
Plane token_plane(const Model& model, const Tokenizer& tokenizer, int64_t limit = 2000);
/// Learned or sinusoidal positions. Throws Error for a model that has no vectors for them.
Plane position_plane(const Model& model, int64_t limit = 2000);

struct TokenNeighbour {
  ShownToken token;
  double value = 0;
};
struct TokenNeighbours {
  ShownToken token;
  std::vector<TokenNeighbour> dot, cosine;  ///< largest first, without the token itself
};
/// Throws ShapeError for a token that is not there, or unless 1 ≤ count ≤ 100.
TokenNeighbours token_neighbours(const Model& model, const Tokenizer& tokenizer, int32_t id, int64_t count = 12);

}  // namespace attend
