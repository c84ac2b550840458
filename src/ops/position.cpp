#include "attend/ops/position.h"

#include <bit>
#include <cmath>
#include <vector>

#include "ops/check.h"

namespace attend {
namespace {

void check(const Tensor& x, const RopeOptions& options) {
  require_float(x, "rope");
  require<ShapeError>(x.rank() >= 2, "rope: x must be […, length, dim], got shape ", x.shape());
  const int64_t length = x.dim(-2), dims = options.dims > 0 ? options.dims : x.dim(-1);
  require<ShapeError>(options.dims >= 0 && dims <= x.dim(-1), "rope: dims must be in [0, ", x.dim(-1), "], got ",
                      options.dims);
  require<ShapeError>(dims % 2 == 0, "rope: the number of rotated features must be even, got ", dims);
  require<ShapeError>(options.base > 0, "rope: base must be positive, got ", options.base);
  if (const Tensor& frequencies = options.frequencies) {
    require<ShapeError>(frequencies.dtype() == DType::f64 && frequencies.shape() == Shape{dims / 2},
                        "rope: frequencies must be f64 [", dims / 2, "], got ", frequencies.dtype(), " ",
                        frequencies.shape());
  }
  if (const Tensor& positions = options.positions) {
    require<ShapeError>(positions.dtype() == DType::i64 && positions.shape() == Shape{length},
                        "rope: positions must be i64 [", length, "], got ", positions.dtype(), " ", positions.shape());
  }
}

Tensor turn(const Tensor& x, const RopeOptions& options, bool inverse) {
  const Tensor y = empty_like(x);
  const Tensor in = x.dim(-1) <= 1 || x.strides()[x.rank() - 1] == 1 ? x.detach() : x.clone();
  const Tensor frequencies = options.frequencies ? on_device(dense(options.frequencies), x.device()) : Tensor{};
  const Tensor positions = options.positions ? on_device(dense(options.positions), x.device()) : Tensor{};
  kernels(x.device())
      .position.rotary(in.view(), rows_or_empty(frequencies), rows_or_empty(positions),
                       {.base = options.base,
                        .offset = options.offset,
                        .layout = options.interleaved ? RotaryLayout::interleaved : RotaryLayout::half,
                        .dims = options.dims,
                        .inverse = inverse},
                       y.view());
  return y;
}

}  // namespace

Tensor sinusoidal_positions(int64_t length, int64_t dim, double base, DType dtype) {
  require<ShapeError>(length >= 0 && dim >= 0, "sinusoidal_positions: sizes must not be negative, got ", length, " × ",
                      dim);
  std::vector<double> values(static_cast<size_t>(length * dim));
  for (int64_t position = 0; position < length; ++position) {
    for (int64_t i = 0; i < dim; ++i) {
      const double exponent = static_cast<double>(i / 2 * 2) / static_cast<double>(dim);
      const double angle = static_cast<double>(position) * std::pow(base, -exponent);
      values[static_cast<size_t>(position * dim + i)] = i % 2 == 0 ? std::sin(angle) : std::cos(angle);
    }
  }
  return to(tensor(values, {length, dim}), dtype);
}

// A rotation is orthogonal, so its gradient is the inverse rotation.
Tensor rope(const Tensor& x, const RopeOptions& options) {
  check(x, options);
  const Tensor y = turn(x, options, false);
  return record("rope", y, {x}, [options](const Tensor& dy) -> Gradients { return {turn(dy, options, true)}; });
}

// For n heads, n a power of two: 2^(−8 i / n) for i = 1 … n. Otherwise the slopes for m heads, m the next lower power
// of two, then every other slope of the sequence for 2m heads.
Tensor alibi_slopes(int64_t heads, DType dtype) {
  require<ShapeError>(heads >= 1, "alibi_slopes: expected at least one head, got ", heads);
  const auto lower = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(heads)));
  std::vector<double> slopes;
  for (int64_t i = 1; i <= lower; ++i)
    slopes.push_back(std::exp2(-8.0 * static_cast<double>(i) / static_cast<double>(lower)));
  for (int64_t i = 1; static_cast<int64_t>(slopes.size()) < heads; i += 2) {
    slopes.push_back(std::exp2(-4.0 * static_cast<double>(i) / static_cast<double>(lower)));
  }
  return to(tensor(slopes, {heads}), dtype);
}

}  // namespace attend
