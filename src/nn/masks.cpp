#include "attend/nn/masks.h"

#include "attend/ops/arithmetic.h"
#include "attend/ops/padding.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"

namespace attend {
namespace {

void require_mask(const Tensor& x, const char* op) {
  require<ShapeError>(x.dtype() == DType::boolean || x.dtype() == DType::u8, op, ": expected a boolean tensor, got ",
                      x.dtype());
}

}  // namespace

// Computes with the values 0 and 1 in float arithmetic, which is exact and needs no extra kernel.
Tensor logical_not(const Tensor& x) {
  require_mask(x, "logical_not");
  return to(scale(to(to(x, DType::boolean), DType::f32), -1, 1), DType::boolean);
}

Tensor logical_and(const Tensor& a, const Tensor& b) {
  if (!a || !b) return a ? a : b;
  require_mask(a, "logical_and");
  require_mask(b, "logical_and");
  return to(multiply(to(a, DType::f32), to(b, DType::f32)), DType::boolean);
}

Tensor position_mask(const PositionMaskOptions& options) {
  const int64_t shift = options.alignment == Alignment::bottom_right ? options.keys - options.queries : 0;
  std::vector<uint8_t> seen(static_cast<size_t>(options.queries * options.keys));
  for (int64_t i = 0; i < options.queries; ++i) {
    const int64_t position = i + shift;
    for (int64_t j = 0; j < options.keys; ++j) {
      const bool past = !options.causal || j <= position;
      const bool near = options.window == 0 || std::abs(position - j) < options.window;
      seen[static_cast<size_t>(i * options.keys + j)] = past && near;
    }
  }
  return bool_tensor(seen, {options.queries, options.keys});
}

Tensor length_mask(const Tensor& lengths, int64_t length) {
  require<ShapeError>(lengths.rank() == 1, "length_mask: expected lengths of shape [batch], got ", lengths.shape());
  if (lengths.device() != kCpu) {  // nothing is read back from the device
    const Tensor real = ones({lengths.dim(0), length, 1}, {DType::f32, lengths.device()});
    return to(reshape(zero_padding(real, lengths), {lengths.dim(0), length}), DType::boolean);
  }
  const std::vector<int64_t> counts = lengths.to_vector<int64_t>();
  std::vector<uint8_t> real;
  for (const int64_t count : counts) {
    require<ShapeError>(count >= 0 && count <= length, "length_mask: length ", count, " is outside 0 … ", length);
    for (int64_t j = 0; j < length; ++j) real.push_back(j < count);
  }
  return to(bool_tensor(real, {lengths.dim(0), length}), lengths.device());
}

}  // namespace attend
