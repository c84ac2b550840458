// How a blocked matrix product is cut into tasks. Included once for each instruction set.
#if defined(ATTEND_MATMUL_CUTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_MATMUL_CUTS_INL_H_
#undef ATTEND_MATMUL_CUTS_INL_H_
#else
#define ATTEND_MATMUL_CUTS_INL_H_
#endif

#include "backend/cpu/matmul/matmul_pack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend::cpu::HWY_NAMESPACE {

inline constexpr int64_t kMostDepth = 1024;           // of a panel; less would read and write c more often
inline constexpr int64_t kLeastDepth = 256;           // however wide a shared b is
inline constexpr int64_t kBlockRows = 128;            // of a, in turn with each panel
inline constexpr int64_t kTurnedRows = 64;            // of a task whose c is turned
inline constexpr int64_t kFewRows = 32;               // so few that packing b would cost more than it saves
inline constexpr int64_t kSharingRows = 256;          // so many that b is worth packing once for all tasks
inline constexpr int64_t kManyRows = 2048;            // so many that it is, however wide b is
inline constexpr int64_t kStripeColumns = 480;        // of a shared b, for one task
inline constexpr int64_t kPackedElements = 3 << 20;   // of b, packed at a time where it is shared
inline constexpr int64_t kPackedColumns = 512;        // so many that rows of a are worth packing too
inline constexpr int64_t kWantedTasks = 16;           // below that, a deep product is split along k
inline constexpr int64_t kSplitDepth = 512;           // of each part at least
inline constexpr int64_t kPartialElements = 1 << 19;  // of c, in all parts together

/// How a product is cut, by its shape alone.
/// - b wide: tasks own tall stripes of c and pack the few panels of b they use for themselves, into their own L2. Rows
///   of a are read where they lie.
/// - b narrow, a tall, or a transposed (a weight's gradient): tasks own wide stripes, and b is packed once for all of
/// them.
///   Where a row of a is used often enough, or is not contiguous, each task packs its rows first.
///   Turned, a task's c stays in its cache until it is whole, and is written out from there.
/// - c small and k deep (a small weight's gradient): k is split too, each part has a c of its own, and these are added
///   in order.
/// - invariant: k alone decides how a sum is cut, into depths that are the same turned or not.
template <class T>
struct Cuts {
  Panels<T> panels;
  int64_t packed_from;  // panels before this one are read in place
  bool shares_b, packs_a;
  Blocks depth;   // of k, multiplied at a time
  Blocks chunk;   // of k: what is packed at a time of a shared b; all of it where b is not shared
  Blocks splits;  // of k: each a task of its own; one for all of k in most products
  Blocks task_rows, task_panels;

  explicit Cuts(const MatrixProduct<T>& in)
      : panels(in.n),
        packed_from(in.b != nullptr && in.b_col == 1 && in.m <= kFewRows ? panels.whole() : 0),
        shares_b(in.turned || in.a_step != 1 || in.m >= (panels.count <= StripePanels() ? kSharingRows : kManyRows)),
        packs_a(in.a_step != 1 || (shares_b && in.n >= kPackedColumns)),
        depth(in.k, shares_b && !in.turned && !in.invariant ? SharedDepth() : kMostDepth, 8),
        chunk(in.k, shares_b && !in.turned ? SharedChunk() : std::max<int64_t>(1, in.k), depth.size),
        splits(in.k, std::max<int64_t>(1, in.k / SplitCount(in)), 8),
        task_rows(in.m, RowsOfTask(in), kTileRows),
        task_panels(panels.count, shares_b ? StripePanels() : OwnPanels(), 1) {}

 private:
  /// Of a task that packs its own: few, for a thread that falls behind leaves the others little to wait for (a prompt's
  /// products: 3 % faster on two threads than with four times as many).
  int64_t OwnPanels() const { return std::clamp<int64_t>(panels.count / 64, 1, 4); }
  int64_t StripePanels() const { return kStripeColumns / panels.widest(); }
  int64_t DepthPacked() const {
    return kPackedElements / std::max<int64_t>(1, (panels.count - packed_from) * panels.widest());
  }
  int64_t SharedDepth() const { return std::clamp(DepthPacked(), kLeastDepth, kMostDepth); }
  int64_t SharedChunk() const { return std::max(depth.size, DepthPacked() / depth.size * depth.size); }
  int64_t SplitCount(const MatrixProduct<T>& in) const {
    const int64_t stripes = (in.m + kBlockRows - 1) / kBlockRows;
    if (!shares_b || in.turned || in.invariant || chunk.count != 1) return 1;
    if (panels.count > StripePanels() || stripes >= kWantedTasks) return 1;
    const int64_t wanted = (kWantedTasks + stripes - 1) / stripes;
    return std::max<int64_t>(1, std::min({wanted, in.k / kSplitDepth, kPartialElements / (in.m * in.n)}));
  }
  int64_t RowsOfTask(const MatrixProduct<T>& in) const {
    if (!shares_b) return 4 * kBlockRows;
    if (splits.count > 1) return kBlockRows;
    return std::clamp<int64_t>(in.m / kWantedTasks, 32, in.turned ? kTurnedRows : kBlockRows);
  }
};

}  // namespace attend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ATTEND_MATMUL_CUTS_INL_H_
