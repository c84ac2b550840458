#include <algorithm>
#include <array>
#include <cstring>

#include "attend/base/dtype.h"
#include "attend/base/threads.h"
#include "backend/cpu/matmul/bf16.h"
#include "backend/cpu/matmul/matmul.h"
#include "backend/cpu/memory.h"

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

// Products of f32 matrices whose operands are rounded to bf16 while they are packed. All of a is packed once, in rows
// along k. Each task packs the panels of b that it owns and streams all rows of a past them. k is never split between
// tasks.
namespace attend::cpu {
namespace {

constexpr int64_t kDepth = 512;                      // elements of k in a panel of b: 32 KiB in L1
constexpr int64_t kRowGroup = 256;                   // rows of a that stay in L2 beside the panel
constexpr int64_t kPackedA = int64_t{1} << 22;       // elements of a that are packed at a time
constexpr int64_t kPanel = kBf16Block * kDepth / 2;  // words of a packed panel of b
constexpr int64_t kTasks = 16;
constexpr int64_t kStrip = 128;  // elements of k that are rounded before they are transposed

int64_t whole_blocks(int64_t size) { return (size + kBf16Block - 1) / kBf16Block * kBf16Block; }

/// Transposes words: to[c][r] = from[r][c]. Both sizes are multiples of four.
void turn_words(const uint32_t* from, int64_t from_row, int64_t rows, int64_t cols, uint32_t* to, int64_t to_row) {
  for (int64_t r = 0; r < rows; r += 4) {
    for (int64_t c = 0; c < cols; c += 4) {
      const uint32_t* in = from + r * from_row + c;
      uint32_t* out = to + c * to_row + r;
#if defined(__SSE2__)
      const auto load = [&](int64_t i) { return _mm_loadu_ps(reinterpret_cast<const float*>(in + i * from_row)); };
      __m128 r0 = load(0), r1 = load(1), r2 = load(2), r3 = load(3);
      _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
      const auto store = [&](int64_t i, __m128 v) { _mm_storeu_ps(reinterpret_cast<float*>(out + i * to_row), v); };
      store(0, r0), store(1, r1), store(2, r2), store(3, r3);
#else
      for (int64_t i = 0; i < 4; ++i) {
        for (int64_t j = 0; j < 4; ++j) out[j * to_row + i] = in[i * from_row + j];
      }
#endif
    }
  }
}

/// One operand of a product as lines (rows of a, columns of b) of k elements.
struct Operand {
  const float* data;
  int64_t lines, line, step;          ///< element p of line i is data[i · line + p · step]
  const BFloat16* rounded = nullptr;  ///< replaces `data` if not null; requires step = 1
};

class Packer {
 public:
  Packer(const Bf16Unit& unit, const Operand& in) : unit_(unit), in_(in) {}

  /// Packs lines first … first + 31 as rows of pairs, `to_row` apart: `depth` elements of k from `begin` on, then zeros
  /// up to `padded`.
  void rows(int64_t first, int64_t begin, int64_t depth, int64_t padded, uint32_t* to, int64_t to_row) const {
    const int64_t count = lines_from(first);
    if (in_.step == 1) {
      for (int64_t i = 0; i < kBf16Block; ++i) {
        round_line(i < count ? first + i : -1, begin, depth, padded, to + i * to_row);
      }
      return;
    }
    for (int64_t p = 0; p < padded; p += kStrip) {
      const int64_t strip = std::min(kStrip, padded - p);
      alignas(64) uint32_t pairs[kStrip / 2 * kBf16Block];
      pair_lines(first, begin + p, std::clamp<int64_t>(depth - p, 0, strip), strip, pairs);
      turn_words(pairs, kBf16Block, strip / 2, kBf16Block, to + p / 2, to_row);
    }
  }

  /// Packs the same lines as a panel: the first pair along k of all 32 lines, then the second, and so on.
  void panel(int64_t first, int64_t begin, int64_t depth, int64_t padded, uint32_t* to) const {
    if (in_.step != 1) return pair_lines(first, begin, depth, padded, to);
    const int64_t count = lines_from(first);
    for (int64_t p = 0; p < padded; p += kStrip) {
      const int64_t strip = std::min(kStrip, padded - p);
      alignas(64) uint32_t lines[kBf16Block * kStrip / 2];
      for (int64_t i = 0; i < kBf16Block; ++i) {
        round_line(i < count ? first + i : -1, begin + p, std::clamp<int64_t>(depth - p, 0, strip), strip,
                   lines + i * kStrip / 2);
      }
      turn_words(lines, kStrip / 2, kBf16Block, strip / 2, to + p / 2 * kBf16Block, kBf16Block);
    }
  }

 private:
  int64_t lines_from(int64_t first) const { return std::min(kBf16Block, in_.lines - first); }

  /// Packs a contiguous line, or zeros if `line` is −1.
  void round_line(int64_t line, int64_t begin, int64_t depth, int64_t padded, uint32_t* to) const {
    const int64_t present = line < 0 ? 0 : depth;
    if (present > 0 && in_.rounded != nullptr) {
      if (present % 2 != 0) to[present / 2] = 0;  // clears the upper half of the last pair
      std::memcpy(to, in_.rounded + line * in_.line + begin, static_cast<size_t>(present) * sizeof(BFloat16));
    } else if (present > 0) {
      unit_.round(in_.data + line * in_.line + begin, present, to);
    }
    std::fill(to + (present + 1) / 2, to + padded / 2, 0u);
  }

  /// to[p / 2][line] = elements p and p + 1 of each line.
  void pair_lines(int64_t first, int64_t begin, int64_t depth, int64_t padded, uint32_t* to) const {
    const int64_t count = lines_from(first);
    static constexpr std::array<float, kBf16Block> kZeros{};
    for (int64_t p = 0; p < padded; p += 2, to += kBf16Block) {
      const float* low = in_.data + first * in_.line + (begin + p) * in_.step;
      const float* high = p + 1 < depth ? low + in_.step : kZeros.data();
      const int64_t present = p < depth ? count : 0;
      if (in_.line == 1) {
        unit_.round_pairs(low, high, present, to);
      } else {
        for (int64_t i = 0; i < present; ++i) {
          const float upper = p + 1 < depth ? high[i * in_.line] : 0;
          to[i] = to_bfloat16(low[i * in_.line]).bits | static_cast<uint32_t>(to_bfloat16(upper).bits) << 16;
        }
      }
      std::fill(to + present, to + kBf16Block, 0u);
    }
  }

  const Bf16Unit& unit_;
  const Operand in_;
};

class Bf16Product {
 public:
  Bf16Product(const Bf16Unit& unit, const MatrixProduct<float>& in)
      : unit_(unit),
        in_(in),
        rows_(unit, {in.a, in.m, in.a_row, in.a_step}),
        columns_(unit, {in.b, in.n, in.b_col, in.b_step, in.b_bf16}),
        chunks_(in.k, std::max<int64_t>(kDepth, kPackedA / whole_blocks(in.m)), kDepth),
        a_row_((std::min(chunks_.size, whole_blocks(in.k)) + kBf16Block) / 2),
        a_(whole_blocks(in.m) * a_row_) {}

  void run() {
    for (int64_t chunk = 0; chunk < chunks_.count; ++chunk) {
      begin_ = chunks_.begin(chunk), depth_ = chunks_.end(chunk) - begin_;
      pack_a();
      multiply_chunk();
    }
  }

 private:
  void pack_a() {
    parallel_for(whole_blocks(in_.m) / kBf16Block, [&](int64_t block) {
      rows_.rows(block * kBf16Block, begin_, depth_, whole_blocks(depth_), a_.data() + block * kBf16Block * a_row_,
                 a_row_);
    });
  }

  void multiply_chunk() {
    const int64_t panels = whole_blocks(in_.n) / kBf16Block;
    const Blocks stripes(panels, std::clamp<int64_t>(panels / kTasks, 1, 4), 1);
    const int64_t row_parts = (kTasks + stripes.count - 1) / stripes.count;
    const Blocks groups(in_.m, std::max(kRowGroup, in_.m / row_parts), kBf16Block);
    parallel_for(stripes.count * groups.count, [&](int64_t task) {
      const int64_t stripe = task / groups.count, group = task % groups.count;
      unit_.begin();
      multiply_stripe({stripes.begin(stripe), stripes.end(stripe)}, {groups.begin(group), groups.end(group)});
      unit_.end();
    });
  }

  struct Range {
    int64_t begin, end;
  };

  void multiply_stripe(Range panels, Range rows) {
    const Scratch<uint32_t> b((panels.end - panels.begin) * kPanel);
    for (int64_t part = 0; part < depth_; part += kDepth) {
      const int64_t depth = std::min(kDepth, depth_ - part), padded = whole_blocks(depth);
      for (int64_t panel = panels.begin; panel < panels.end; ++panel) {
        columns_.panel(panel * kBf16Block, begin_ + part, depth, padded, b.data() + (panel - panels.begin) * kPanel);
      }
      for (int64_t row = rows.begin; row < rows.end; row += kRowGroup) {
        const int64_t last = std::min(row + kRowGroup, rows.end);
        for (int64_t panel = panels.begin; panel < panels.end; ++panel) {
          for (int64_t i = row; i < last; i += kBf16Block) {
            Bf16Block block{.depth = padded,
                            .a = a_.data() + i * a_row_ + part / 2,
                            .a_row = a_row_,
                            .b = b.data() + (panel - panels.begin) * kPanel};
            multiply_block(block, i, panel * kBf16Block, begin_ + part == 0);
          }
        }
      }
    }
  }

  /// Writes directly into c if the block is whole, else through a local block.
  void multiply_block(Bf16Block& block, int64_t row, int64_t column, bool first) const {
    float* c = in_.c + row * in_.c_row + column;
    const float* bias = first && in_.bias != nullptr ? in_.bias + column : nullptr;
    const bool adds = !first || in_.accumulate;
    const int64_t rows = std::min(kBf16Block, in_.m - row), columns = std::min(kBf16Block, in_.n - column);
    block.c = c, block.c_row = in_.c_row;
    if (adds) block.start = c, block.start_row = in_.c_row;
    if (bias != nullptr) block.start = bias, block.start_row = 0;
    if (rows == kBf16Block && columns == kBf16Block && !(adds && bias != nullptr)) {
      return unit_.multiply(block);
    }
    if (in_.invariant && !(adds && bias != nullptr)) return multiply_edge(unit_, block, rows, columns);
    block.start = nullptr;
    alignas(64) float sums[kBf16Block * kBf16Block];
    block.c = sums, block.c_row = kBf16Block;
    unit_.multiply(block);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        float& out = c[i * in_.c_row + j];
        const float sum = sums[i * kBf16Block + j];
        const float value = sum + (bias != nullptr ? bias[j] : 0);
        out = adds ? out + value : value;
      }
    }
  }

  const Bf16Unit& unit_;
  const MatrixProduct<float> in_;
  const Packer rows_, columns_;
  const Blocks chunks_;  // of k
  const int64_t a_row_;  // in words, one cache line above the depth: rows a power of two apart would share cache sets
  const Scratch<uint32_t> a_;
  int64_t begin_ = 0, depth_ = 0;
};

}  // namespace

bool multiply_bf16(const MatrixProduct<float>& product) {
  const Bf16Unit* unit = bf16_unit();
  const int64_t rows = product.invariant ? kBf16Block : product.m;
  if (unit == nullptr || std::min({rows, product.n, product.k}) < kBf16Block) return false;
  Bf16Product(*unit, product).run();
  return true;
}

}  // namespace attend::cpu
