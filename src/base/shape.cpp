#include "attend/base/shape.h"

namespace attend {

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
