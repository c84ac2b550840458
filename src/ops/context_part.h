#pragma once

#include <array>

#include "attend/tensor/tensor.h"
#include "distributed/group.h"

namespace attend {

/// Positions [begin, end) of a sequence.
struct PositionRange {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const PositionRange&) const = default;
};

/// The time of ring transfers so far.
struct RingTimes {
  double busy = 0;     ///< seconds in which a transfer was under way
  double exposed = 0;  ///< seconds of them in which the computation waited
};

/// A rank's part of a sequence that the ranks of a group divide among themselves.
///
/// The sequence is cut into 2 · ranks chunks, whose lengths differ by 1 at most. Rank r holds chunk r, followed by
/// chunk 2 · ranks − 1 − r. In causal attention, early positions see few keys and late ones many: so all ranks have
/// equal work.
class ContextPart {
 public:
  /// `group` must outlive this object.
  ContextPart(distributed::Group& group, int64_t length) : group_(&group), length_(length) {}

  distributed::Group& group() const { return *group_; }
  int64_t length() const { return length_; }  ///< of the whole sequence
  std::array<PositionRange, 2> chunks(int rank) const;
  std::array<PositionRange, 2> chunks() const { return chunks(group_->rank()); }
  int64_t size(int rank) const;  ///< number of positions that a rank holds
  int64_t size() const { return size(group_->rank()); }
  Tensor positions() const;  ///< of this rank, i64 [size]
  /// This rank's part of `x` along an axis, on which x has the whole sequence.
  Tensor take(const Tensor& x, int64_t axis) const;

  RingTimes& times() const { return times_; }

 private:
  distributed::Group* group_;
  int64_t length_;
  mutable RingTimes times_;
};

}  // namespace attend
