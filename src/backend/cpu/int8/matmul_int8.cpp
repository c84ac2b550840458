#include <algorithm>
#include <bit>

#include "backend/cpu/int8/int8.h"
#include "backend/cpu/matmul/fetch_ahead.h"
#include "backend/cpu/matmul/linear.h"
#include "backend/cpu/matmul/matmul.h"
#include "backend/cpu/memory.h"
#include "backend/cpu/strided.h"

// Products of f32 rows with i8 weights. Each row of x is rounded to 8 bits, the sums are exact, and one multiply-add at
// the end converts them to f32. The bits of a row do not depend on how many other rows are multiplied with it.
namespace attend::cpu {
namespace {

constexpr int64_t kDepth = 512;      // elements of k in a packed panel: 24 KiB in L1
constexpr int64_t kBlockRows = 128;  // rows of x that stay in L2 beside the panel
constexpr int64_t kTaskRows = 512;
constexpr int64_t kWantedTasks = 16;

/// All rows of x, prepared for the unit, and the scale factor of each.
class PreparedRows {
 public:
  PreparedRows(const Int8Unit& unit, ConstRows x, bool for_dots)
      : row_bytes_((x.cols + kInt8Step - 1) / kInt8Step * kInt8Step * (for_dots ? unit.dot_element : unit.element) +
                   kLine),
        values_(x.rows * row_bytes_),
        factors_(x.rows) {
    const auto* from = static_cast<const float*>(x.data);
    parallel_ranges(x.rows, kGrain / std::max<int64_t>(1, x.cols), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const auto prepare = for_dots ? unit.prepare_dots : unit.prepare;
        prepare(from + i * x.stride, x.cols, values_.data() + i * row_bytes_, factors_.data() + i);
      }
    });
  }
  const uint8_t* row(int64_t i) const { return values_.data() + i * row_bytes_; }
  int64_t row_bytes() const { return row_bytes_; }
  const float* factors() const { return factors_.data(); }

 private:
  static constexpr int64_t kLine = 64;  // gap between rows: rows 4 KiB apart would share the same cache sets
  int64_t row_bytes_;
  Scratch<uint8_t> values_;
  Scratch<float> factors_;
};

/// How k is cut, in panels that are packed beforehand as in those that a task packs.
Blocks parts_of(int64_t k) { return Blocks(std::max<int64_t>(k, 1), kDepth, kInt8Step); }

/// Bytes of a panel of all of k.
int64_t panel_bytes(const Int8Unit& unit, int64_t k) {
  return unit.columns * unit.element * ((std::max<int64_t>(k, 1) + kInt8Step - 1) / kInt8Step * kInt8Step);
}

struct Weights {
  const int8_t* values;
  int64_t row;
  const float* scales;
  const int32_t* sums;
  const float* bias;
  float* y;
  int64_t y_row;
  const uint8_t* panels;  // packed beforehand, or null

  explicit Weights(const WeightProduct& product)
      : values(static_cast<const int8_t*>(product.weight.values.data)),
        row(product.weight.values.stride),
        scales(product.weight.scales),
        sums(product.weight.sums),
        bias(static_cast<const float*>(product.bias.data)),
        y(static_cast<float*>(product.y.data)),
        y_row(product.y.stride),
        panels(static_cast<const uint8_t*>(product.weight.panels)) {}

  Int8Finish finish(int64_t column) const {
    return {.column_factors = scales + column,
            .column_sums = sums + column,
            .bias = bias != nullptr ? bias + column : nullptr};
  }
};

/// The product for a few rows: reads the weights once, in order.
void multiply_few(const Int8Unit& unit, ConstRows x, std::span<const WeightProduct> products) {
  const PreparedRows prepared(unit, x, true);
  const StreamAhead ahead = stream_ahead(DType::i8, x.rows <= kRowsAtOnce);
  for_weight_rows(products, 4, [&](const WeightProduct& product, int64_t first, int64_t last) {
    const Weights weights(product);
    const int64_t step = x.rows <= kRowsAtOnce ? last - first : 12;  // 12 lines of weights stay in cache for all of x
    for (int64_t j = first; j < last; j += step) {
      Int8Dots dots{.lines = std::min(step, last - j),
                    .depth = x.cols,
                    .x_row = prepared.row_bytes(),
                    .weights = weights.values + j * weights.row,
                    .weight_row = weights.row,
                    .finish = weights.finish(j),
                    .y_row = weights.y_row,
                    .ahead = ahead};
      for (int64_t i = 0; i < x.rows; i += kRowsAtOnce) {
        dots.rows = std::min(kRowsAtOnce, x.rows - i);
        dots.x = prepared.row(i);
        dots.finish.row_factors = prepared.factors() + i;
        dots.y = weights.y + i * weights.y_row + j;
        unit.dots(dots);
      }
    }
  });
}

/// The product for many rows. Each task owns stripes of panels, packs them itself and streams the rows of x past them.
/// Between parts of k, y holds the integer sums.
class Int8Product {
 public:
  Int8Product(const Int8Unit& unit, ConstRows x, const PreparedRows& rows, const WeightProduct& product)
      : unit_(unit), rows_(rows), weights_(product), m_(x.rows), n_(product.y.cols), k_(x.cols) {}

  void run() const {
    const int64_t panels = (n_ + unit_.columns - 1) / unit_.columns;
    const Blocks stripes(panels, std::clamp<int64_t>(panels / kWantedTasks, 1, 4), 1);
    const Blocks groups(m_, kTaskRows, unit_.rows);
    parallel_for(stripes.count * groups.count, [&](int64_t task) {
      const int64_t stripe = task / groups.count, group = task % groups.count;
      const int64_t next = (task + threads()) / groups.count;  // most likely the next task of this thread
      multiply_stripe({stripes.begin(stripe), stripes.end(stripe)}, {groups.begin(group), groups.end(group)},
                      next < stripes.count ? Range{stripes.begin(next), stripes.end(next)} : Range{0, 0});
    });
  }

 private:
  struct Range {
    int64_t begin, end;
  };

  void multiply_stripe(Range panels, Range rows, Range next_panels) const {
    const int64_t own_bytes = unit_.columns * kDepth * unit_.element;
    const Scratch<uint8_t> own(weights_.panels != nullptr ? 0 : (panels.end - panels.begin) * own_bytes);
    const Blocks parts = parts_of(k_);
    for (int64_t part = 0; part < parts.count; ++part) {
      const int64_t begin = parts.begin(part), depth = std::min(parts.end(part), k_) - begin;
      for (int64_t panel = panels.begin; panel < panels.end && weights_.panels == nullptr; ++panel) {
        const int64_t first = panel * unit_.columns;
        unit_.pack(weights_.values + first * weights_.row + begin, weights_.row, std::min(unit_.columns, n_ - first),
                   depth, own.data() + (panel - panels.begin) * own_bytes);
      }
      const bool is_last = part + 1 == parts.count;
      const int64_t tiles = (rows.end - rows.begin) / unit_.rows * (panels.end - panels.begin);
      FetchAhead ahead = part_ahead(is_last ? next_panels : panels, is_last ? 0 : parts.end(part), tiles);
      for (int64_t row = rows.begin; row < rows.end; row += kBlockRows) {
        const Range block{row, std::min(row + kBlockRows, rows.end)};
        for (int64_t panel = panels.begin; panel < panels.end; ++panel) {
          const Int8Tile tile{
              .depth = (depth + kInt8Step - 1) / kInt8Step * kInt8Step,
              .a_row = rows_.row_bytes(),
              .b = weights_.panels != nullptr ? packed(panel, begin) : own.data() + (panel - panels.begin) * own_bytes,
              .add = part > 0};
          multiply_panel(tile, block, panel * unit_.columns, begin, is_last, ahead);
        }
      }
    }
  }

  const uint8_t* packed(int64_t panel, int64_t begin) const {
    return weights_.panels + panel * panel_bytes(unit_, k_) + begin * unit_.columns * unit_.element;
  }

  /// Prefetches the weights that are needed next, from index `begin` of k on.
  FetchAhead part_ahead(Range panels, int64_t begin, int64_t times) const {
    if (weights_.panels != nullptr) {
      const int64_t bytes = std::min(kDepth, k_ - begin) * unit_.columns * unit_.element;
      return {packed(panels.begin, begin), panel_bytes(unit_, k_), panels.end - panels.begin, bytes, times};
    }
    const int64_t first = panels.begin * unit_.columns, last = std::min(panels.end * unit_.columns, n_);
    return {weights_.values + first * weights_.row + begin, weights_.row, std::max<int64_t>(0, last - first),
            std::min(kDepth, k_ - begin), times};
  }

  void multiply_panel(Int8Tile tile, Range rows, int64_t column, int64_t begin, bool is_last, FetchAhead& ahead) const {
    Int8Finish finish = weights_.finish(column);
    const int64_t columns = std::min(unit_.columns, n_ - column);
    tile.finish = is_last && columns == unit_.columns ? &finish : nullptr;
    for (int64_t i = rows.begin; i < rows.end; i += unit_.rows) {
      tile.rows = std::min(unit_.rows, rows.end - i);
      tile.a = rows_.row(i) + begin * unit_.element;
      finish.row_factors = rows_.factors() + i;
      auto* c = reinterpret_cast<int32_t*>(weights_.y + i * weights_.y_row + column);
      ahead.fetch();
      if (columns == unit_.columns) {
        tile.c = c, tile.c_row = weights_.y_row;
        unit_.multiply(tile);
      } else {
        multiply_edge(tile, c, columns, is_last ? &finish : nullptr);
      }
    }
  }

  /// Computes a tile that crosses the edge of y in a local buffer.
  void multiply_edge(Int8Tile& tile, int32_t* c, int64_t columns, const Int8Finish* finish) const {
    int32_t sums[kInt8MostRows * kInt8MostColumns] = {};
    tile.c = sums, tile.c_row = unit_.columns;
    for (int64_t i = 0; i < tile.rows && tile.add; ++i) {
      std::copy_n(c + i * weights_.y_row, columns, sums + i * unit_.columns);
    }
    unit_.multiply(tile);
    for (int64_t i = 0; i < tile.rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        int32_t& sum = sums[i * unit_.columns + j];
        if (finish != nullptr) {
          sum = std::bit_cast<int32_t>(int8_finished(*finish, i, j, sum - unit_.zero * finish->column_sums[j]));
        }
        c[i * weights_.y_row + j] = sum;
      }
    }
  }

  const Int8Unit& unit_;
  const PreparedRows& rows_;
  const Weights weights_;
  const int64_t m_, n_, k_;
};

}  // namespace

size_t pack_int8(const WeightMatrix& weight, void* to) {
  const Int8Unit& unit = int8_unit();
  const ConstRows& values = weight.values;
  // A unit that multiplies wider elements would need more memory for the panels than for the weights.
  if (unit.element > 1) return 0;
  const int64_t panels = (values.rows + unit.columns - 1) / unit.columns, bytes = panel_bytes(unit, values.cols);
  const Blocks parts = parts_of(values.cols);
  parallel_for(to != nullptr ? panels : 0, [&](int64_t panel) {
    const int64_t first = panel * unit.columns;
    for (int64_t part = 0; part < parts.count; ++part) {
      const int64_t begin = parts.begin(part);
      unit.pack(static_cast<const int8_t*>(values.data) + first * values.stride + begin, values.stride,
                std::min(unit.columns, values.rows - first), std::min(parts.end(part), values.cols) - begin,
                static_cast<uint8_t*>(to) + panel * bytes + begin * unit.columns * unit.element);
    }
  });
  return static_cast<size_t>(panels * bytes);
}

void multiply_int8(ConstRows x, std::span<const WeightProduct> products) {
  const Int8Unit& unit = int8_unit();
  const auto is_packed = [](const WeightProduct& product) { return product.weight.panels != nullptr; };
  if (x.rows <= (std::ranges::all_of(products, is_packed) ? kRowsAtOnce : kDotRows)) {
    return multiply_few(unit, x, products);
  }
  const PreparedRows rows(unit, x, false);
  for (const WeightProduct& product : products) Int8Product(unit, x, rows, product).run();
}

}  // namespace attend::cpu
