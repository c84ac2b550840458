#pragma once

#include <array>
#include <cstdint>
#include <optional>
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
  int64_t total = 0;                  ///< number of vectors that the model has; at least the number of points
  std::array<double, 2> explained{};  ///< fraction of the variance that each component explains
};

/// Projects the embeddings of the first `limit` tokens, and onto the same plane the token `also`, if it is not one of
/// them. Throws ShapeError unless 1 ≤ limit ≤ 20,000, or for a token that does not exist.
Plane token_plane(const Model& model, const Tokenizer& tokenizer, int64_t limit = 2000,
                  std::optional<int64_t> also = {});
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

/// The tokens whose text contains `text`, ignoring case: at most `count`, those equal to `text` first.
std::vector<ShownToken> find_tokens(const Tokenizer& tokenizer, const std::string& text, size_t count = 50);

}  // namespace attend
