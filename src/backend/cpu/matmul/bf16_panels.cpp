#include "backend/cpu/matmul/bf16_panels.h"

#include <algorithm>
#include <cstring>

#include "attend/base/threads.h"
#include "backend/cpu/matmul/bf16.h"
#include "backend/cpu/matmul/linear.h"
#include "backend/cpu/memory.h"

// The lower bound is the unit's rate, or for few rows the time to read the weights. All rows stream past a part of a
// panel in L1 while the next part is prefetched into L2.
namespace attend::cpu {
namespace {

constexpr int64_t kDepth = 512;  // inputs in a part of a panel: 32 KiB in L1

int64_t blocks_in(int64_t size) { return (size + kBf16Block - 1) / kBf16Block; }
int64_t whole_blocks(int64_t size) { return blocks_in(size) * kBf16Block; }
/// Words of a panel.
int64_t panel_words(int64_t inputs) { return kBf16Block * whole_blocks(inputs) / 2; }

void pack_panel(const ConstRows& weights, int64_t first, uint32_t* to) {
  std::fill_n(to, panel_words(weights.cols), 0u);
  const int64_t lines = std::min(kBf16Block, weights.rows - first);
  for (int64_t j = 0; j < lines; ++j) {
    const auto* line = static_cast<const BFloat16*>(weights.data) + (first + j) * weights.stride;
    for (int64_t p = 0; p < weights.cols; ++p) {
      to[p / 2 * kBf16Block + j] |= static_cast<uint32_t>(line[p].bits) << (p % 2 * 16);
    }
  }
}

/// Rows of x as pairs, padded with zeros to whole blocks.
class RoundedRows {
 public:
  RoundedRows(const Bf16Unit& unit, const ConstRows& x)
      : words_(whole_blocks(x.cols) / 2 + kLine), pairs_(whole_blocks(x.rows) * words_) {
    parallel_ranges(whole_blocks(x.rows), kLeast / std::max<int64_t>(1, x.cols), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        uint32_t* to = pairs_.data() + i * words_;
        const int64_t pairs = i < x.rows ? (x.cols + 1) / 2 : 0;
        if (pairs > 0) unit.round(static_cast<const float*>(x.data) + i * x.stride, x.cols, to);
        std::fill(to + pairs, to + words_, 0u);
      }
    });
  }
  const uint32_t* row(int64_t i) const { return pairs_.data() + i * words_; }
  int64_t words() const { return words_; }

 private:
  static constexpr int64_t kLine = 16;         // words: rows a power of two apart would share cache sets
  static constexpr int64_t kLeast = 64 << 10;  // elements for a task of its own
  const int64_t words_;
  const Scratch<uint32_t> pairs_;
};

/// All rows of x times one panel of weights.
void multiply_panel(const Bf16Unit& unit, const RoundedRows& x, int64_t rows, const WeightProduct& product,
                    int64_t first) {
  const int64_t inputs = product.weight.values.cols, padded = whole_blocks(inputs), blocks = blocks_in(rows);
  const auto* bias = static_cast<const float*>(product.bias.data);
  const auto* panel = static_cast<const uint32_t*>(product.weight.panels) + first / kBf16Block * panel_words(inputs);
  const int64_t columns = std::min(kBf16Block, product.y.cols - first);
  for (int64_t part = 0; part < padded; part += kDepth) {
    const int64_t depth = std::min(kDepth, padded - part);
    const uint32_t* b = panel + part / 2 * kBf16Block;
    const auto* next = reinterpret_cast<const char*>(b + depth / 2 * kBf16Block);
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t row = block * kBf16Block, from = depth * block / blocks, to = depth * (block + 1) / blocks;
      float* c = static_cast<float*>(product.y.data) + row * product.y.stride + first;
      Bf16Block one{.depth = depth,
                    .a = x.row(row) + part / 2,
                    .a_row = x.words(),
                    .b = b,
                    .c = c,
                    .c_row = product.y.stride,
                    .ahead = next + from * 64,  // a part has as many cache lines as inputs
                    .ahead_lines = to - from};
      if (part > 0) {
        one.start = c, one.start_row = one.c_row;
      } else if (bias != nullptr) {
        one.start = bias + first;
      }
      const int64_t count = std::min(kBf16Block, rows - row);
      if (count == kBf16Block && columns == kBf16Block)
        unit.multiply(one);
      else
        multiply_edge(unit, one, count, columns);
    }
  }
}

}  // namespace

bool has_bf16_panels(const ConstRows& weights) {
  return weights.dtype == DType::bf16 && bf16_unit() != nullptr && std::min(weights.rows, weights.cols) >= kBf16Block;
}

bool are_bf16_panels(const WeightMatrix& weight) { return weight.panels_for_bf16 && has_bf16_panels(weight.values); }

size_t pack_bf16_panels(const ConstRows& weights, void* to) {
  const int64_t panels = blocks_in(weights.rows), words = panel_words(weights.cols);
  if (to != nullptr) {
    parallel_for(panels, [&](int64_t panel) {
      pack_panel(weights, panel * kBf16Block, static_cast<uint32_t*>(to) + panel * words);
    });
  }
  return static_cast<size_t>(panels * words) * sizeof(uint32_t);
}

bool multiply_bf16_panels(ConstRows x, std::span<const WeightProduct> products) {
  const Bf16Unit* unit = bf16_unit();
  const auto is_packed = [](const WeightProduct& product) {
    return product.weight.panels != nullptr && are_bf16_panels(product.weight);
  };
  if (unit == nullptr || !std::ranges::all_of(products, is_packed)) return false;
  if (unit->multiply_lines != nullptr && x.rows <= kBf16FewRows) return false;
  const RoundedRows rounded(*unit, x);
  for_packed_rows(products, kBf16Block, [&](const WeightProduct& product, int64_t first, int64_t last) {
    unit->begin();
    for (int64_t j = first; j < last; j += kBf16Block) multiply_panel(*unit, rounded, x.rows, product, j);
    unit->end();
  });
  return true;
}

}  // namespace attend::cpu
