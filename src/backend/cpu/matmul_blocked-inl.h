// The matrix product for all but a few rows, out of packed panels. Included once for each instruction set.
#if defined(ATTEND_MATMUL_BLOCKED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_MATMUL_BLOCKED_INL_H_
#undef ATTEND_MATMUL_BLOCKED_INL_H_
#else
#define ATTEND_MATMUL_BLOCKED_INL_H_
#endif

#include "attend/base/threads.h"
#include "backend/cpu/matmul_pack-inl.h"
#include "backend/cpu/matmul_tile-inl.h"
#include "backend/cpu/memory.h"

HWY_BEFORE_NAMESPACE();
namespace attend::cpu::HWY_NAMESPACE {

// After Goto and van de Geijn (2008), with the roles of L1 and L2 as in BLIS: a panel of b, kPanelBytes of it at a time,
// stays in L1 while the bands of a block of a pass by from L2. Blocks are cut by shape alone, and k is never shared
// between tasks, so the bits of c do not depend on the number of threads.
inline constexpr int64_t kPanelBytes = 24 << 10;
inline constexpr int64_t kBlockRows = 128;            // × a panel's depth: 128 KiB of a in L2
inline constexpr int64_t kBlockPanels = 4;            // panels of b that a task multiplies with those rows
inline constexpr int64_t kPackedElements = 1 << 20;   // of b, packed at a time
inline constexpr int64_t kTaskProducts = 1 << 18;     // multiply-adds worth handing to another thread
inline constexpr int64_t kPackElements = 1 << 15;     // elements worth handing to another thread when packing
inline constexpr int64_t kFewRows = 32;               // so few that packing b would cost more than it saves

template <class T>
class BlockedProduct {
 public:
  explicit BlockedProduct(const Product<T>& in)
      : in_(in),
        width_(PanelWidth<T>()),
        panels_((in.n + width_ - 1) / width_),
        packed_from_(in.b_col == 1 && in.m <= kFewRows ? in.n / width_ : 0),
        depths_(in.k, kPanelBytes / (width_ * static_cast<int64_t>(sizeof(T))), 8),
        chunk_(in.k, ChunkDepth(), depths_.size),
        packs_a_(in.a_step != 1),
        packed_a_(packs_a_ ? Bands() * PackedStride<T>(kTileRows, chunk_.size) : 0),
        packed_b_((panels_ - packed_from_) * PackedStride<T>(width_, chunk_.size)) {}

  void Run() {
    for (int64_t chunk = 0; chunk < std::max<int64_t>(1, chunk_.count); ++chunk) {
      part_ = {chunk_.begin(chunk), chunk_.end(chunk)};
      Pack();
      Multiply();
    }
  }

 private:
  int64_t Bands() const { return (in_.m + kTileRows - 1) / kTileRows; }
  /// A whole number of panel depths, so that what is packed at a time has a bound.
  int64_t ChunkDepth() const {
    const int64_t most = kPackedElements / std::max<int64_t>(1, (panels_ - packed_from_) * width_);
    return std::max(depths_.size, most / depths_.size * depths_.size);
  }

  void Pack() {
    const int64_t wide = PackedStride<T>(width_, part_.count()), narrow = PackedStride<T>(kTileRows, part_.count());
    parallel_ranges(panels_ - packed_from_, kPackElements / wide, [&](int64_t first, int64_t last) {
      PackPanels(in_, packed_from_ + first, packed_from_ + last, part_, packed_b_.data() + first * wide);
    });
    if (!packs_a_) return;
    parallel_ranges(Bands(), kPackElements / narrow, [&](int64_t first, int64_t last) {
      PackBands(in_, first * kTileRows, std::min(last * kTileRows, in_.m), part_, packed_a_.data() + first * narrow);
    });
  }

  void Multiply() {
    const Blocks rows(in_.m, kBlockRows, kTileRows), panels(panels_, kBlockPanels, 1);
    const int64_t work = std::max<int64_t>(1, rows.size * panels.size * width_ * part_.count());
    parallel_ranges(rows.count * panels.count, kTaskProducts / work, [&](int64_t first, int64_t last) {
      for (int64_t task = first; task < last; ++task) {
        const int64_t row = task % rows.count, panel = task / rows.count;
        MultiplyBlock(rows.begin(row), rows.end(row), panels.begin(panel), panels.end(panel));
      }
    });
  }

  void MultiplyBlock(int64_t first_row, int64_t last_row, int64_t first_panel, int64_t last_panel) {
    int64_t begin = part_.begin;
    do {
      const int64_t depth = std::min(depths_.size, part_.end - begin);
      for (int64_t panel = first_panel; panel < last_panel; ++panel) {
        TileOperands<T> operands = PanelOperands(panel, begin);
        TileOutput<T> output{.c_row = in_.c_row,
                             .columns = std::min(width_, in_.n - panel * width_),
                             .bias = in_.bias != nullptr && begin == 0 ? in_.bias + panel * width_ : nullptr,
                             .add = begin > 0 || in_.accumulate};
        for (int64_t row = first_row; row < last_row; row += kTileRows) {
          SetRows(row, begin, operands);
          output.c = in_.c + row * in_.c_row + panel * width_;
          MultiplyRows(std::min<int64_t>(kTileRows, last_row - row), depth, operands, output);
        }
      }
      begin += depth;
    } while (begin < part_.end);
  }

  TileOperands<T> PanelOperands(int64_t panel, int64_t begin) const {
    if (panel < packed_from_) return {.b = in_.b + begin * in_.b_step + panel * width_, .b_step = in_.b_step};
    const int64_t start = (panel - packed_from_) * PackedStride<T>(width_, part_.count());
    return {.b = packed_b_.data() + start + (begin - part_.begin) * width_, .b_step = width_};
  }

  void SetRows(int64_t row, int64_t begin, TileOperands<T>& operands) const {
    if (packs_a_) {
      operands.a = packed_a_.data() + row / kTileRows * PackedStride<T>(kTileRows, part_.count()) +
                   (begin - part_.begin) * kTileRows;
      operands.a_row = 1;
      operands.a_step = kTileRows;
    } else {
      operands.a = in_.a + row * in_.a_row + begin;
      operands.a_row = in_.a_row;
      operands.a_step = 1;
    }
  }

  const Product<T> in_;
  const int64_t width_, panels_;
  const int64_t packed_from_;  // panels before this one are read in place
  const Blocks depths_;        // what stays in L1 of each panel
  const Blocks chunk_;         // what is packed at a time
  const bool packs_a_;
  const Scratch<T> packed_a_, packed_b_;
  Depth part_;  // the chunk being multiplied
};

}  // namespace attend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ATTEND_MATMUL_BLOCKED_INL_H_
