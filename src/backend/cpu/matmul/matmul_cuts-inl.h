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

inline constexpr int64_t kMostDepth = 1024;           // maximum depth of a panel; less would access c more often
inline constexpr int64_t kLeastDepth = 256;           // minimum depth, however wide a shared b is
inline constexpr int64_t kBlockRows = 128;            // rows of a that are multiplied with each panel in turn
inline constexpr int64_t kTurnedRows = 64;            // rows of a task that writes cᵀ
inline constexpr int64_t kFewRows = 32;               // up to this many rows, packing b costs more than it saves
inline constexpr int64_t kSharingRows = 256;          // from this many rows on, a narrow b is packed once for all tasks
inline constexpr int64_t kManyRows = 2048;            // from this many rows on, any b is packed once for all tasks
inline constexpr int64_t kStripeColumns = 480;        // columns of a task if b is shared
inline constexpr int64_t kPackedElements = 3 << 20;   // elements of a shared b that are packed at a time
inline constexpr int64_t kPackedColumns = 512;        // from this many columns on, rows of a are packed too
inline constexpr int64_t kWantedTasks = 16;           // with fewer tasks, a deep product is split along k
inline constexpr int64_t kSplitDepth = 512;           // minimum depth of each part of k
inline constexpr int64_t kPartialElements = 1 << 19;  // maximum elements of c in all parts together

/// How a product is cut into tasks. The cut depends on the shape alone.
/// - Wide b: tasks own tall stripes of c and pack the few panels of b that they use into their own L2. Rows of a are
///   read in place.
/// - Narrow b, tall a, or transposed a (the gradient of a weight): tasks own wide stripes, and b is packed once for all
///   tasks. If a row of a is used often enough, or is not contiguous, each task packs its rows first. If `turned`, a
///   task's part of c stays in its cache until it is complete, then it is written transposed.
/// - Small c and deep k (the gradient of a small weight): k is split, too. Each part has its own c, and these are added
///   in order.
/// - `invariant`: k alone decides how a sum is cut. The depths are the same whether or not the product is `turned`.
template <class T>
struct Cuts {
  Panels<T> panels;
  int64_t packed_from;  // panels before this one are read in place
  bool shares_b, packs_a;
  Blocks depth;   // of k: multiplied at a time
  Blocks chunk;   // of k: packed at a time if b is shared; all of k otherwise
  Blocks splits;  // of k: separate tasks; a single one for most products
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
  /// Panels of a task that packs its own. Few, so that other threads wait little for a thread that falls behind (the
  /// products of a prompt: 3 % faster on two threads than with four times as many panels).
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
