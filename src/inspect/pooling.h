#pragma once

#include "attend/inspect/arrays.h"

namespace attend {

constexpr int64_t kTile = 256, kMostThumbnail = 256;

struct TilePlace {
  int64_t attention = 0, head = 0, level = 0, row = 0, column = 0;
};
/// The array `tile/…` of run_array. Throws ShapeError for a tile outside the map.
Array tile(const Run& run, const TilePlace& place);

/// All heads of an attention module, pooled to at most `side` × `side` cells each: [heads, rows, columns]. Throws
/// ShapeError unless `side` is from 1 to 256.
Array thumbnails(const RunAttention& attention, int64_t side);

}  // namespace attend
