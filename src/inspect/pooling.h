#pragma once

#include "attend/inspect/arrays.h"

namespace attend {

constexpr int64_t kTile = 256, kMostThumbnail = 256;

struct TilePlace {
  int64_t attention = 0, head = 0, level = 0, row = 0, column = 0;
};
/// See run_array. Throws ShapeError for a tile that lies outside.
Array tile(const Run& run, const TilePlace& place);

/// All heads of an attention as pictures of at most `side` cells a side: [heads, rows, columns]. Throws ShapeError for
/// a side that is not from 1 to 256.
Array thumbnails(const RunAttention& attention, int64_t side);

}  // namespace attend
