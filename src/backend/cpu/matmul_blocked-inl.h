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

// After Goto and van de Geijn (2008), with the roles of L1 and L2 as in BLIS: a panel of b, kPanelBytes of it at a
// time, stays in L1 while the bands of a block of a pass by from L2. A task packs what it needs into its own L2 just
// before use: packing all of b first, through memory, took 6 % of the time at 512 × 768 → 3072, this takes 2 %. Blocks
// are cut by shape alone, and k is never shared between tasks, so the bits of c do not depend on the number of threads.
//
// The floor is the FMA rate. On Zen 3 (AVX2, f32) the tile alone reaches 0.97 of it out of L1 and L2; a linear layer
// 512 × 768 → 3072 reaches 0.91 forward, 0.89 for the input's gradient and 0.93 for the weight's. The rest is packing
// (0.02) and the first touch of each panel of b, block of a and tile of c.
inline constexpr int64_t kPanelBytes = 24 << 10;
inline constexpr int64_t kBlockRows = 128;           // × a panel's depth: 128 KiB of a in L2
inline constexpr int64_t kFewRows = 32;              // so few that packing b would cost more than it saves
inline constexpr int64_t kTaskProducts = 1 << 18;    // multiply-adds worth handing to another thread
inline constexpr int64_t kPackElements = 1 << 15;    // elements worth handing to another thread when packing
inline constexpr int64_t kPackedElements = 1 << 20;  // of b, packed at a time where it is shared

/// How a product is cut. Rows of a that are contiguous are read where they lie; then tasks own tall stripes of c and
/// pack their few panels of b for themselves. Where a must be packed (it is transposed, as in a weight's gradient),
/// tasks own wide stripes and pack their rows of a, and b is packed once for all of them.
template <class T>
struct Cuts {
  int64_t width = PanelWidth<T>();
  int64_t panels;       // of b
  int64_t packed_from;  // panels before this one are read in place
  bool packs_a;
  Blocks depth;  // what stays in L1 of each panel
  Blocks chunk;  // of k: what is packed at a time of a shared b; all of it where b is not shared
  Blocks task_rows, task_panels;

  explicit Cuts(const MatrixProduct<T>& in)
      : panels((in.n + width - 1) / width),
        packed_from(in.b_col == 1 && in.m <= kFewRows ? in.n / width : 0),
        packs_a(in.a_step != 1),
        depth(in.k, kPanelBytes / (width * static_cast<int64_t>(sizeof(T))), 8),
        chunk(in.k, packs_a ? SharedDepth() : std::max<int64_t>(1, in.k), depth.size),
        task_rows(in.m, packs_a ? std::clamp<int64_t>(in.m / 16, 32, kBlockRows) : 4 * kBlockRows, kTileRows),
        task_panels(panels, packs_a ? 40 : std::clamp<int64_t>(panels / 16, 1, 4), 1) {}

 private:
  int64_t SharedDepth() const {
    const int64_t most = kPackedElements / std::max<int64_t>(1, (panels - packed_from) * width);
    return std::max(depth.size, most / depth.size * depth.size);
  }
};

template <class T>
class BlockedProduct {
 public:
  explicit BlockedProduct(const MatrixProduct<T>& in)
      : in_(in),
        cuts_(in),
        shared_b_(cuts_.packs_a ? PackedSize(cuts_.panels - cuts_.packed_from, cuts_.width, cuts_.chunk.size) : 0) {}

  void Run() {
    for (int64_t index = 0; index < std::max<int64_t>(1, cuts_.chunk.count); ++index) {
      chunk_ = {cuts_.chunk.begin(index), cuts_.chunk.end(index)};
      if (cuts_.packs_a) PackSharedPanels();
      MultiplyChunk();
    }
  }

 private:
  /// A rectangle of c, in rows and panels.
  struct Stripe {
    int64_t first_row, last_row, first_panel, last_panel;
  };
  /// Packed panels and where they begin.
  struct Panels {
    const T* data;
    int64_t first;
    Depth part;
  };

  static int64_t PackedSize(int64_t count, int64_t width, int64_t depth) {
    return count * PackedStride<T>(width, depth);
  }

  void PackSharedPanels() {
    const int64_t stride = PackedStride<T>(cuts_.width, chunk_.count()), from = cuts_.packed_from;
    parallel_ranges(cuts_.panels - from, kPackElements / stride, [&](int64_t first, int64_t last) {
      PackPanels(in_, from + first, from + last, chunk_, shared_b_.data() + first * stride);
    });
  }

  void MultiplyChunk() {
    const Blocks &rows = cuts_.task_rows, &panels = cuts_.task_panels;
    const int64_t work = std::max<int64_t>(1, rows.size * panels.size * cuts_.width * chunk_.count());
    parallel_ranges(rows.count * panels.count, kTaskProducts / work, [&](int64_t first, int64_t last) {
      const Scratch<T> own(OwnSize());
      for (int64_t task = first; task < last; ++task) {
        const int64_t row = task % rows.count, panel = task / rows.count;
        MultiplyStripe({rows.begin(row), rows.end(row), panels.begin(panel), panels.end(panel)}, own.data());
      }
    });
  }

  /// Elements a task packs for itself: its rows of a, or its panels of b.
  int64_t OwnSize() const {
    if (cuts_.packs_a)
      return PackedSize((cuts_.task_rows.size + kTileRows - 1) / kTileRows, kTileRows, cuts_.depth.size);
    return cuts_.packed_from == cuts_.panels ? 0 : PackedSize(cuts_.task_panels.size, cuts_.width, cuts_.depth.size);
  }

  void MultiplyStripe(const Stripe& stripe, T* own) {
    Depth part{chunk_.begin, chunk_.begin};
    do {
      part = {part.end, std::min(part.end + cuts_.depth.size, chunk_.end)};
      Panels panels{shared_b_.data(), cuts_.packed_from, chunk_};
      if (cuts_.packs_a) {
        PackBands(in_, stripe.first_row, stripe.last_row, part, own);
      } else {
        panels = {own, std::max(stripe.first_panel, cuts_.packed_from), part};
        PackPanels(in_, panels.first, std::max(stripe.last_panel, panels.first), part, own);
      }
      for (int64_t row = stripe.first_row; row < stripe.last_row; row += kBlockRows) {
        const Stripe block{row, std::min(row + kBlockRows, stripe.last_row), stripe.first_panel, stripe.last_panel};
        MultiplyBlock(block, part, own, panels);
      }
    } while (part.end < chunk_.end);
  }

  /// Rows that stay in L2 with each panel in turn, which stays in L1.
  void MultiplyBlock(const Stripe& block, Depth part, const T* bands, const Panels& panels) {
    for (int64_t panel = block.first_panel; panel < block.last_panel; ++panel) {
      TileOperands<T> operands = PanelOperands(panel, part, panels);
      TileOutput<T> output{.c_row = in_.c_row,
                           .columns = std::min(cuts_.width, in_.n - panel * cuts_.width),
                           .bias = in_.bias != nullptr && part.begin == 0 ? in_.bias + panel * cuts_.width : nullptr,
                           .add = part.begin > 0 || in_.accumulate};
      for (int64_t row = block.first_row; row < block.last_row; row += kTileRows) {
        operands.a = cuts_.packs_a ? bands + PackedSize((row - block.first_row) / kTileRows, kTileRows, part.count())
                                   : in_.a + row * in_.a_row + part.begin;
        output.c = in_.c + row * in_.c_row + panel * cuts_.width;
        ProductRows(std::min<int64_t>(kTileRows, block.last_row - row), part.count(), operands, output);
      }
    }
  }

  TileOperands<T> PanelOperands(int64_t panel, Depth part, const Panels& packed) const {
    TileOperands<T> operands{.a_row = cuts_.packs_a ? 1 : in_.a_row, .a_step = cuts_.packs_a ? kTileRows : 1};
    if (panel < cuts_.packed_from) {
      operands.b = in_.b + part.begin * in_.b_step + panel * cuts_.width;
      operands.b_step = in_.b_step;
    } else {
      operands.b = packed.data + PackedSize(panel - packed.first, cuts_.width, packed.part.count()) +
                   (part.begin - packed.part.begin) * cuts_.width;
      operands.b_step = cuts_.width;
    }
    return operands;
  }

  const MatrixProduct<T> in_;
  const Cuts<T> cuts_;
  const Scratch<T> shared_b_;
  Depth chunk_;
};

}  // namespace attend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ATTEND_MATMUL_BLOCKED_INL_H_
