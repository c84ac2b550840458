#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

namespace attend::distributed {

/// Adds the leaves 0 … count − 1 of a fixed binary tree, so that the bits of the sum do not depend on who adds which
/// leaves. Leaves 2i and 2i + 1 are added first, then pairs of such pairs, and so on; blocks without a partner at the
/// end are added from right to left.
///
/// A TreeSum takes consecutive parts of the tree in ascending order and adds as soon as both halves of a block are
/// there. So it holds at most log2(count) + 1 parts, or 2 log2(count) if it does not start at leaf 0. What remains can
/// be handed to another TreeSum.
template <class Value>
class TreeSum {
 public:
  struct Part {
    int64_t first = 0, size = 1;  ///< the leaves [first, first + size) of the tree; size is a power of two
    Value value{};
  };

  /// Adds a part that follows the parts so far. add(left, right) adds `right` to `left` in place.
  template <class Add>
  void push(Part part, Add&& add) {
    parts_.push_back(std::move(part));
    while (parts_.size() > 1) {
      Part& left = parts_[parts_.size() - 2];
      Part& right = parts_.back();
      if (left.size != right.size || left.first % (2 * left.size) != 0) break;
      add(left.value, right.value);
      left.size *= 2;
      parts_.pop_back();
    }
  }

  std::vector<Part>& parts() { return parts_; }

  /// The sum of all leaves; call it when all parts were pushed. Empties this object.
  template <class Add>
  Value total(Add&& add) {
    std::vector<Part> parts = std::exchange(parts_, {});
    Value sum = std::move(parts.back().value);
    for (auto i = std::ssize(parts) - 2; i >= 0; --i) {
      add(parts[static_cast<size_t>(i)].value, sum);
      sum = std::move(parts[static_cast<size_t>(i)].value);
    }
    return sum;
  }

 private:
  std::vector<Part> parts_;
};

/// The parts, as (first, size), in which a TreeSum leaves the leaves [begin, end).
inline std::vector<std::pair<int64_t, int64_t>> tree_parts(int64_t begin, int64_t end) {
  std::vector<std::pair<int64_t, int64_t>> parts;
  while (begin < end) {
    const auto room = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(end - begin)));
    const int64_t aligned = begin == 0 ? room : int64_t{1} << std::countr_zero(static_cast<uint64_t>(begin));
    parts.emplace_back(begin, std::min(room, aligned));
    begin += parts.back().second;
  }
  return parts;
}

}  // namespace attend::distributed
