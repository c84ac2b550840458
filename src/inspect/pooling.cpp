#include "inspect/pooling.h"

#include <algorithm>

#include "attend/base/error.h"
#include "attend/base/threads.h"
#include "attend/inspect/heads.h"
#include "inspect/summaries.h"

namespace attend {
namespace {

constexpr int64_t kMostLevel = 24;

/// Number of cells of a level along an axis of `count` weights.
int64_t cells_of(int64_t count, int64_t level) { return ((count - 1) >> level) + 1; }

struct Cells {
  int64_t row = 0, column = 0;    // the first cell
  int64_t rows = 0, columns = 0;  // number of cells
};

/// Writes to each cell the maximum of the head's weights in it.
void pool_weights(const RunAttention& attention, int64_t head, int64_t level, const Cells& cells, Array& out) {
  const int64_t keys = attention.keys();
  const RowRange rows{cells.row << level, std::min((cells.row + cells.rows) << level, attention.queries())};
  const int64_t first = cells.column << level, last = std::min((cells.column + cells.columns) << level, keys);
  sweep_rows(attention, {head}, rows, [&](RowRange range, std::span<const float> weights) {
    for (int64_t row = range.begin; row < range.end; ++row) {
      const float* from = &weights[static_cast<size_t>((row - range.begin) * keys)];
      float* to = &out.values[static_cast<size_t>(((row >> level) - cells.row) * cells.columns)];
      for (int64_t key = first; key < last; ++key) {
        float& cell = to[(key >> level) - cells.column];
        cell = std::max(cell, from[key]);
      }
    }
  });
}

/// Writes to each cell the maximum of the summary's finer cells in it.
void pool_grid(const HeadSummary& summary, int64_t level, const Cells& cells, Array& out) {
  const int64_t finer = level - summary.level;
  for (int64_t row = cells.row << finer; row < std::min((cells.row + cells.rows) << finer, summary.grid_rows); ++row) {
    for (int64_t column = cells.column << finer;
         column < std::min((cells.column + cells.columns) << finer, summary.grid_columns); ++column) {
      float& cell = out.values[static_cast<size_t>(((row >> finer) - cells.row) * cells.columns + (column >> finer) -
                                                   cells.column)];
      cell = std::max(cell, summary.grid[static_cast<size_t>(row * summary.grid_columns + column)]);
    }
  }
}

}  // namespace

Array tile(const Run& run, const TilePlace& place) {
  const RunAttention& attention = attention_at(run, place.attention);
  check_head(attention, place.head);
  require<ShapeError>(place.level <= kMostLevel, "inspect: level ", place.level, " is above ", kMostLevel);
  const int64_t rows = cells_of(attention.queries(), place.level), columns = cells_of(attention.keys(), place.level);
  require<ShapeError>(place.row <= (rows - 1) / kTile && place.column <= (columns - 1) / kTile, "inspect: tile ",
                      place.row, ", ", place.column, " lies outside the ", rows, " × ", columns, " cells of level ",
                      place.level);
  Cells cells{.row = place.row * kTile, .column = place.column * kTile};
  cells.rows = std::min(kTile, rows - cells.row);
  cells.columns = std::min(kTile, columns - cells.column);
  Array result{.shape = {cells.rows, cells.columns},
               .values = std::vector<float>(static_cast<size_t>(cells.rows * cells.columns))};
  const int64_t longest = std::max(attention.queries(), attention.keys());
  // A coarse tile of a long text covers many rows. The summary, computed once, already has their maxima.
  if (longest >> place.level <= 1024 && longest > 1024) {
    const auto summary = head_summary(run, place.attention, place.head);
    if (place.level >= summary->level) {
      pool_grid(*summary, place.level, cells, result);
      return result;
    }
  }
  pool_weights(attention, place.head, place.level, cells, result);
  return result;
}

Array thumbnails(const RunAttention& attention, int64_t side) {
  require<ShapeError>(side >= 1 && side <= kMostThumbnail, "inspect: a thumbnail's side is from 1 to ", kMostThumbnail,
                      ", got ", side);
  const int64_t heads = attention.heads(), queries = attention.queries(), keys = attention.keys();
  const int64_t rows = std::min(side, queries), columns = std::min(side, keys);
  Array result{.shape = {heads, rows, columns},
               .values = std::vector<float>(static_cast<size_t>(heads * rows * columns))};
  sweep_rows(attention, {}, {0, queries}, [&](RowRange range, std::span<const float> weights) {
    const int64_t count = range.end - range.begin;
    parallel_for(heads, [&](int64_t head) {
      for (int64_t i = 0; i < count; ++i) {
        const float* from = &weights[static_cast<size_t>((head * count + i) * keys)];
        const int64_t row = (range.begin + i) * rows / queries;
        float* to = &result.values[static_cast<size_t>((head * rows + row) * columns)];
        for (int64_t column = 0; column < columns; ++column) {
          // Key j belongs to cell j · columns / keys.
          const int64_t begin = (column * keys + columns - 1) / columns,
                        end = ((column + 1) * keys + columns - 1) / columns;
          to[column] = std::max(to[column], *std::max_element(from + begin, from + end));
        }
      }
    });
  });
  return result;
}

}  // namespace attend
