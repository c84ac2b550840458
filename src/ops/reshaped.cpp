#include "ops/reshaped.h"

#include "ops/check.h"

namespace attend {

// Groups axes of x whose elements are evenly spaced. A view exists if each group can be split or merged into axes of
// the new shape. Walks both shapes from the last axis.
std::optional<Tensor> try_view_as(const Tensor& x, const Shape& shape) {
  if (x.numel() == 0) return x.as_strided(shape, contiguous_strides(shape), x.offset());
  Strides strides = shape;
  int64_t to = shape.rank() - 1;
  int64_t group = 1;  // elements of the current group of x's axes
  int64_t step = x.rank() > 0 ? x.strides()[x.rank() - 1] : 1;
  for (int64_t from = x.rank() - 1; from >= 0; --from) {
    group *= x.shape()[from];
    const bool ends = from == 0 || (x.shape()[from - 1] != 1 && x.strides()[from - 1] != group * step);
    if (!ends) continue;
    int64_t covered = 1;
    while (to >= 0 && (covered < group || shape[to] == 1)) {
      strides[to] = step * covered;
      covered *= shape[to--];
    }
    if (covered != group) return std::nullopt;
    if (from > 0) step = x.strides()[from - 1];
    group = 1;
  }
  for (; to >= 0; --to) strides[to] = 1;  // leading axes of size 1
  return x.as_strided(shape, strides, x.offset());
}

Tensor reshaped(const Tensor& x, const Shape& shape) {
  if (auto view = try_view_as(x, shape)) return *view;
  return x.clone().as_strided(shape, contiguous_strides(shape), 0);
}

Tensor as_matrix(const Tensor& x) {
  const int64_t cols = x.rank() > 0 ? x.dim(-1) : 1;
  int64_t count = 1;
  for (int64_t axis = 0; axis + 1 < x.rank(); ++axis) count *= x.shape()[axis];
  return reshaped(x, {count, cols});
}

Tensor transposed(const Tensor& x, int64_t axis_a, int64_t axis_b) {
  Shape shape = x.shape();
  Strides strides = x.strides();
  const int64_t a = shape.axis(axis_a, "transpose"), b = shape.axis(axis_b, "transpose");
  std::swap(shape[a], shape[b]);
  std::swap(strides[a], strides[b]);
  return x.as_strided(shape, strides, x.offset());
}

}  // namespace attend
