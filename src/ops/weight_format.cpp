#include "attend/ops/weight_format.h"

#include "ops/check.h"
#include "ops/weight_matrix.h"

namespace attend {
namespace {

/// The contents of an int8 matrix's scale storage: one scale per row (f32), then the sum of each row's values (i32).
struct RowScales {
  float* scales;
  int32_t* sums;
};

RowScales scales_of(const Storage& storage, int64_t rows) {
  auto* scales = static_cast<float*>(storage.data());
  return {scales, reinterpret_cast<int32_t*>(scales + rows)};
}

Tensor quantized(const Tensor& weight) {
  const Tensor from = dense(to(weight, DType::f32));
  const int64_t count = from.dim(0);
  const Tensor result = empty(from.shape(), {DType::i8, from.device()});
  const auto beside =
      std::make_shared<Storage>(static_cast<size_t>(count) * (sizeof(float) + sizeof(int32_t)), from.device());
  const RowScales target = scales_of(*beside, count);
  kernels(from.device()).weights.quantize(rows(from), rows(result), target.scales, target.sums);
  result.storage()->set_scales(beside);
  return result;
}

}  // namespace

const char* name_of(WeightFormat format) {
  switch (format) {
    case WeightFormat::f32:
      return "f32";
    case WeightFormat::bf16:
      return "bf16";
    case WeightFormat::int8:
      return "int8";
  }
  return "";
}

bool is_reduced(const Tensor& weight) {
  return weight && (weight.dtype() == DType::bf16 || (weight.dtype() == DType::i8 && weight.storage()->scales()));
}

WeightMatrix weight_matrix(const Tensor& weight) {
  WeightMatrix result{.values = rows(weight)};
  if (const auto& beside = weight.storage()->scales()) {
    // `weight` may be a view of some rows, so the total number of rows comes from the size of the scale storage.
    const auto all = static_cast<int64_t>(beside->bytes() / (sizeof(float) + sizeof(int32_t)));
    const RowScales scales = scales_of(*beside, all);
    const int64_t first = weight.dim(1) > 0 ? weight.offset() / weight.dim(1) : 0;
    result.scales = scales.scales + first;
    result.sums = scales.sums + first;
  }
  const auto& panels = weight.storage()->panels();
  const bool is_whole = weight.offset() == 0 && weight.storage()->bytes() == weight.numel() * size_of(weight.dtype());
  if (panels && is_whole) {
    result.panels = panels->data();
    result.panels_for_bf16 = weight.storage()->panels_for_bf16();
  }
  return result;
}

Tensor in_format(const Tensor& weight, WeightFormat format) {
  require<ShapeError>(weight && weight.rank() == 2 && (is_floating(weight.dtype()) || is_reduced(weight)),
                      "in_format: expected a matrix of floats, got ", weight.dtype(), " of shape ", weight.shape());
  if (weight.storage()->scales()) {
    require<ShapeError>(format == WeightFormat::int8, "in_format: cannot convert int8 to ", name_of(format),
                        "; convert the original matrix");
    return weight;
  }
  switch (format) {
    case WeightFormat::f32:
      return to(weight, DType::f32);
    case WeightFormat::bf16:
      return to(weight, DType::bf16);
    case WeightFormat::int8:
      return quantized(weight);
  }
  return weight;
}

void pack_matrix(const Tensor& weight) {
  require<ShapeError>(weight && weight.rank() == 2, "pack_matrix: expected a matrix, got shape ", weight.shape());
  const DType dtype = weight.dtype();
  const bool is_weight = dtype == DType::f32 || dtype == DType::bf16 || weight.storage()->scales();
  if (!is_weight || !weight.is_contiguous() || weight.storage()->panels()) return;
  const auto& pack = kernels(weight.device()).weights.pack;
  const bool bf16 = current_precision() == Precision::bf16;
  const size_t bytes = pack(weight_matrix(weight), bf16, nullptr);
  if (bytes == 0) return;
  const auto panels = std::make_shared<Storage>(bytes, weight.device());
  pack(weight_matrix(weight), bf16, panels->data());
  weight.storage()->set_panels(panels, bf16);
}

Tensor as_f32(const Tensor& weight) {
  if (!weight.storage()->scales()) return to(weight, DType::f32);
  const Tensor index = to(arange(weight.dim(0)), weight.device());
  const Tensor result = empty(weight.shape(), {DType::f32, weight.device()});
  kernels(weight.device()).weights.take_rows(weight_matrix(weight), rows(index), rows(result));
  return result;
}

Tensor row_scales(const Tensor& weight) {
  require<ShapeError>(weight && weight.storage()->scales(), "row_scales: expected an int8 matrix, got ",
                      weight.dtype());
  const Tensor result = empty({weight.dim(0)}, {DType::f32, weight.device()});
  const ConstView scales{weight_matrix(weight).scales, DType::f32, result.shape(), result.strides()};
  kernels(weight.device()).elementwise.copy(scales, result.view());
  return result;
}

}  // namespace attend
