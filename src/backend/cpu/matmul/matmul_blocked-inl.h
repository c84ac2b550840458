// The matrix product from packed panels, for all but a few rows. Included once for each instruction set.
#if defined(ATTEND_MATMUL_BLOCKED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_MATMUL_BLOCKED_INL_H_
#undef ATTEND_MATMUL_BLOCKED_INL_H_
#else
#define ATTEND_MATMUL_BLOCKED_INL_H_
#endif

#include "attend/base/threads.h"
#include "backend/cpu/matmul/fetch_ahead.h"
#include "backend/cpu/matmul/matmul_cuts-inl.h"
#include "backend/cpu/matmul/matmul_tile-inl.h"
#include "backend/cpu/memory.h"

HWY_BEFORE_NAMESPACE();
namespace attend::cpu::HWY_NAMESPACE {

// After Goto and van de Geijn (2008): each panel of b is multiplied with all bands of a block of a; both are read from
// L2. Cuts describes which task packs which operand. A panel is up to 1,024 deep, too much for L1. Panels of a quarter
// of that depth, which fit into L1, load and store c four times as often; they were 4 % slower on Zen 3 (AVX2) and 10 %
// slower on Sapphire Rapids (AVX-512).
//
// The lower bound is the FMA rate. On Zen 3 (AVX2, f32) the tile alone reaches 0.97 of it from L1 and L2. The rest is
// packing (0.02) and the first access to each panel of b, block of a and tile of c.
inline constexpr int64_t kTaskProducts = 1 << 18;  // minimum multiply-adds for a task of its own
inline constexpr int64_t kPackElements = 1 << 15;  // minimum elements for a packing task of its own

template <class T>
class BlockedProduct {
 public:
  explicit BlockedProduct(const MatrixProduct<T>& in)
      : in_(in),
        cuts_(in),
        shared_b_(cuts_.shares_b ? PackedPanels(cuts_.panels.count - cuts_.packed_from, cuts_.chunk.size) : 0),
        partial_c_(IsSplit() ? cuts_.splits.count * in.m * in.n : 0) {}

  void Run() {
    for (int64_t index = 0; index < std::max<int64_t>(1, cuts_.chunk.count); ++index) {
      chunk_ = {cuts_.chunk.begin(index), cuts_.chunk.end(index)};
      if (cuts_.shares_b) PackSharedPanels();
      MultiplyChunk();
    }
    if (IsSplit()) AddPartials();
  }

 private:
  /// A rectangle of c, in rows and panels, and the range of k it is multiplied over.
  struct Stripe {
    int64_t first_row, last_row, first_panel, last_panel;
    Depth range;
    T* c;
    int64_t c_row;
  };
  /// Packed panels, the index of the first, and their range of k.
  struct Packed {
    const T* data;
    int64_t first;
    Depth part;
  };

  bool IsSplit() const { return cuts_.splits.count > 1; }
  int64_t PackedPanels(int64_t count, int64_t depth) const {
    return count * PackedStride<T>(cuts_.panels.widest(), depth);
  }
  static int64_t PackedBands(int64_t rows, int64_t depth) {
    return (rows + kTileRows - 1) / kTileRows * PackedStride<T>(kTileRows, depth);
  }

  void PackSharedPanels() {
    const int64_t stride = PackedPanels(1, chunk_.count()), from = cuts_.packed_from;
    parallel_ranges(cuts_.panels.count - from, kPackElements / stride, [&](int64_t first, int64_t last) {
      PackPanels(in_, cuts_.panels, from + first, from + last, chunk_, shared_b_.data() + first * stride);
    });
  }

  void MultiplyChunk() {
    const Blocks &rows = cuts_.task_rows, &panels = cuts_.task_panels;
    const int64_t splits = IsSplit() ? cuts_.splits.count : 1, depth = IsSplit() ? cuts_.splits.size : chunk_.count();
    const int64_t work = std::max<int64_t>(1, rows.size * panels.size * cuts_.panels.widest() * depth);
    parallel_ranges(rows.count * panels.count * splits, kTaskProducts / work, [&](int64_t first, int64_t last) {
      const Scratch<T> own(OwnSize());
      for (int64_t task = first; task < last; ++task) {
        const int64_t row = task % rows.count, panel = task / rows.count % panels.count;
        Stripe stripe{rows.begin(row), rows.end(row), panels.begin(panel), panels.end(panel), chunk_, in_.c, in_.c_row};
        if (IsSplit()) SetSplit(task / rows.count / panels.count, stripe);
        in_.turned ? MultiplyTurned(stripe, own.data()) : MultiplyStripe(stripe, own.data());
      }
    });
  }

  void SetSplit(int64_t split, Stripe& stripe) {
    stripe.range = {cuts_.splits.begin(split), cuts_.splits.end(split)};
    stripe.c = partial_c_.data() + split * in_.m * in_.n;
    stripe.c_row = in_.n;
  }

  /// Elements of a task's own memory: its packed rows of a, its packed panels of b, or its rows of c before
  /// transposing.
  int64_t OwnSize() const {
    if (in_.turned) return TurnedSize() + (in_.a_bf16 != nullptr ? cuts_.task_rows.size * WidenedRow() : 0);
    if (cuts_.packs_a) return PackedBands(cuts_.task_rows.size, cuts_.depth.size);
    const bool none = cuts_.shares_b || cuts_.packed_from == cuts_.panels.count;
    return none ? 0 : PackedPanels(cuts_.task_panels.size, cuts_.depth.size);
  }

  int64_t TurnedSize() const { return (cuts_.task_rows.size * in_.n + 15) / 16 * 16; }
  /// Distance between widened rows of a, in elements. Rows a power of two apart would share cache sets.
  int64_t WidenedRow() const { return cuts_.depth.size + 16; }

  /// Where the rows of a stripe are read: in place, or widened to f32 in the task's own memory. Widened rows are in L2,
  /// as are rows read in place. With 64 rows of x, widening takes a twentieth of the time.
  struct RowsOfA {
    const T* data;
    int64_t row;
  };
  RowsOfA WidenRows(const Stripe& stripe, Depth part, T* to) const {
    if constexpr (std::is_same_v<T, float>) {
      for (int64_t row = stripe.first_row; row < stripe.last_row; ++row) {
        WidenRow(in_.a_bf16 + row * in_.a_row + part.begin, part.count(), to + (row - stripe.first_row) * WidenedRow());
      }
    }
    return {to - stripe.first_row * WidenedRow(), WidenedRow()};
  }

  void MultiplyTurned(Stripe stripe, T* own) {
    const int64_t first = stripe.first_row, rows = stripe.last_row - first;
    stripe.c = own - first * in_.n;
    stripe.c_row = in_.n;
    MultiplyStripe(stripe, own + TurnedSize());
    // Writes a few lines of cᵀ at a time: their distance is often a power of two, so all would share one cache set.
    constexpr int64_t kLines = 4;
    for (int64_t column = 0; column < in_.n; column += kLines) {
      const int64_t lines = std::min(kLines, in_.n - column);
      TransposeScaled(own + column, in_.n, rows, lines, T{1}, in_.c + column * in_.c_row + first, in_.c_row,
                      in_.bias != nullptr ? in_.bias + first : nullptr);
    }
  }

  void MultiplyStripe(const Stripe& stripe, T* own) {
    Depth part{stripe.range.begin, stripe.range.begin};
    do {
      part = {part.end, std::min(part.end + cuts_.depth.size, stripe.range.end)};
      Packed packed{shared_b_.data(), cuts_.packed_from, chunk_};
      if (cuts_.packs_a) PackBands(in_, stripe.first_row, stripe.last_row, part, own);
      const RowsOfA rows =
          in_.a_bf16 != nullptr ? WidenRows(stripe, part, own) : RowsOfA{in_.a + part.begin, in_.a_row};
      if (!cuts_.shares_b) {
        packed = {own, std::max(stripe.first_panel, cuts_.packed_from), part};
        PackPanels(in_, cuts_.panels, packed.first, std::max(stripe.last_panel, packed.first), part, own);
      }
      for (int64_t row = stripe.first_row; row < stripe.last_row; row += kBlockRows) {
        Stripe block = stripe;
        block.first_row = row, block.last_row = std::min(row + kBlockRows, stripe.last_row);
        MultiplyBlock(block, part, rows, own, packed, AheadOf(stripe, part));
      }
    } while (part.end < stripe.range.end);
  }

  /// If a holds weights in memory, prefetches the data needed after this part of a stripe: the stripe's next part, or
  /// the first part of the stripe that is probably this thread's next. Makes 32 rows of x an eighth faster, 128 a
  /// twentieth. Weights in L3 gain nothing.
  FetchAhead AheadOf(const Stripe& stripe, Depth part) const {
    if (!in_.turned) return {};
    int64_t task = stripe.first_row / cuts_.task_rows.size, begin = part.end;
    if (begin == stripe.range.end) task += threads(), begin = stripe.range.begin;
    if (task >= cuts_.task_rows.count) return {};
    const bool is_bf16 = in_.a_bf16 != nullptr;
    const int64_t bytes = is_bf16 ? sizeof(BFloat16) : sizeof(T);
    const int64_t first = cuts_.task_rows.begin(task), bands = (stripe.last_row - stripe.first_row) / kTileRows;
    const int64_t place = first * in_.a_row + begin;
    return {is_bf16 ? static_cast<const void*>(in_.a_bf16 + place) : in_.a + place, in_.a_row * bytes,
            cuts_.task_rows.end(task) - first, std::min(cuts_.depth.size, stripe.range.end - begin) * bytes,
            bands * (stripe.last_panel - stripe.first_panel)};
  }

  /// Multiplies a block of rows, which stay in L2, with each panel in turn.
  void MultiplyBlock(const Stripe& block, Depth part, const RowsOfA& a, const T* bands, const Packed& packed,
                     FetchAhead ahead) {
    for (int64_t panel = block.first_panel; panel < block.last_panel; ++panel) {
      const int64_t column = cuts_.panels.begin(panel);
      TileOperands<T> operands = PanelOperands(panel, part, packed);
      if (!cuts_.packs_a) operands.a_row = a.row;
      const bool is_first = part.begin == 0 && !IsSplit(), is_last = part.end == in_.k && !IsSplit();
      TileOutput<T> output{.c_row = block.c_row,
                           .columns = cuts_.panels.used(panel),
                           .add = part.begin > block.range.begin || chunk_.begin > 0 || (is_first && in_.accumulate),
                           .bias = in_.bias != nullptr && is_last && !in_.turned ? in_.bias + column : nullptr};
      const bool is_wide = panel < cuts_.panels.wide;
      const int64_t height = is_wide || cuts_.packs_a ? kTileRows : kNarrowRows;
      for (int64_t row = block.first_row; row < block.last_row; row += height) {
        operands.a = cuts_.packs_a ? bands + PackedBands(row - block.first_row, part.count()) : a.data + row * a.row;
        output.c = block.c + row * block.c_row + column;
        const int64_t rows = std::min(height, block.last_row - row);
        ahead.fetch();
        if (is_wide)
          ProductRows<kTileVectors, kTileRows>(rows, part.count(), operands, output);
        else if (cuts_.panels.is_single() && rows == kNarrowRows)
          ProductTile<kNarrowRows, 1>(part.count(), operands, output);
        else  // also for panels of one vector: the results of the second vector are not stored
          ProductRows<kTileVectors - 1, kNarrowRows>(rows, part.count(), operands, output);
      }
    }
  }

  TileOperands<T> PanelOperands(int64_t panel, Depth part, const Packed& packed) const {
    TileOperands<T> operands{.a_row = 1, .a_step = cuts_.packs_a ? kTileRows : 1};
    if (panel < cuts_.packed_from) {
      operands.b = in_.b + part.begin * in_.b_step + cuts_.panels.begin(panel);
      operands.b_step = in_.b_step;
    } else {
      operands.b_step = cuts_.panels.width(panel);
      operands.b = packed.data + PackedPanels(panel - packed.first, packed.part.count()) +
                   (part.begin - packed.part.begin) * operands.b_step;
    }
    return operands;
  }

  /// c (+)= Σ partial c (+ bias), the parts in rising order of k.
  void AddPartials() {
    const int64_t size = in_.m * in_.n;
    parallel_ranges(in_.m, kPackElements / (in_.n * cuts_.splits.count), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        T* HWY_RESTRICT c = in_.c + row * in_.c_row;
        for (int64_t split = 0; split < cuts_.splits.count; ++split) {
          const T* HWY_RESTRICT from = partial_c_.data() + split * size + row * in_.n;
          if (split == 0 && !in_.accumulate)
            std::copy_n(from, in_.n, c);
          else
            for (int64_t j = 0; j < in_.n; ++j) c[j] += from[j];
        }
        if (in_.bias == nullptr) continue;
        for (int64_t j = 0; j < in_.n; ++j) c[j] += in_.bias[j];
      }
    });
  }

  const MatrixProduct<T> in_;
  const Cuts<T> cuts_;
  const Scratch<T> shared_b_, partial_c_;
  Depth chunk_;
};

}  // namespace attend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ATTEND_MATMUL_BLOCKED_INL_H_
