#include "attend/base/shape.h"

namespace attend {

Shape::Shape(std::span<const int64_t> dims) : rank_(static_cast<int64_t>(dims.size())) {
  require<ShapeError>(rank_ <= kMaxRank, "shape: at most ", kMaxRank, " axes are supported, got ", rank_);
  std::copy(dims.begin(), dims.end(), dims_.begin());
}

void Shape::push_back(int64_t dim) {
  require<ShapeError>(rank_ < kMaxRank, "shape: at most ", kMaxRank, " axes are supported");
  dims_[static_cast<size_t>(rank_++)] = dim;
}

void Shape::throw_no_axis(int64_t axis, const char* op) const {
  throw_error<ShapeError>(op, ": axis ", axis, " is out of range for shape ", *this);
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  out << '[';
  for (int64_t i = 0; i < shape.rank(); ++i) out << (i ? ", " : "") << shape[i];
  return out << ']';
}

Shape broadcast_shapes(const Shape& a, const Shape& b, const char* op) {
  const Shape& longer = a.rank() >= b.rank() ? a : b;
  const Shape& shorter = a.rank() >= b.rank() ? b : a;
  Shape result = longer;
  const int64_t offset = longer.rank() - shorter.rank();
  for (int64_t i = 0; i < shorter.rank(); ++i) {
    const int64_t x = longer[offset + i], y = shorter[i];
    require<ShapeError>(x == y || x == 1 || y == 1, op, ": shapes ", a, " and ", b, " do not broadcast");
    result[offset + i] = x == 1 ? y : x;
  }
  return result;
}

}  // namespace attend
