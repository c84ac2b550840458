#include "ops/context_part.h"

#include <numeric>

#include "attend/base/error.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"

namespace attend {

std::array<PositionRange, 2> ContextPart::chunks(int rank) const {
  const int64_t count = 2 * int64_t{group_->size()};
  const auto chunk = [&](int64_t number) -> PositionRange {
    return {length_ * number / count, length_ * (number + 1) / count};
  };
  return {chunk(rank), chunk(count - 1 - rank)};
}

int64_t ContextPart::size(int rank) const {
  const auto [early, late] = chunks(rank);
  return early.size() + late.size();
}

Tensor ContextPart::positions() const {
  std::vector<int64_t> values(static_cast<size_t>(size()));
  const auto [early, late] = chunks();
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(early.size());
  std::iota(values.begin(), middle, early.begin);
  std::iota(middle, values.end(), late.begin);
  return tensor(values, {size()});
}

Tensor ContextPart::take(const Tensor& x, int64_t axis) const {
  require<ShapeError>(x.dim(axis) == length_, "context part: expected ", length_, " positions, got shape ", x.shape());
  const auto [early, late] = chunks();
  return concat({slice(x, axis, early.begin, early.end), slice(x, axis, late.begin, late.end)}, axis);
}

}  // namespace attend
