#pragma once

#include "attend/tensor/tensor.h"

// The matrices of linear layers and embeddings may be held in fewer bits for inference: linear() and embedding() take
// them as they take f32, and everything between stays f32.
namespace attend {

enum class WeightFormat {
  f32,
  bf16,  ///< the upper half of each f32, rounded; widened on the way into products, which are those of f32 to the bit
  int8,  ///< each row in 255 steps of its largest magnitude / 127
};
const char* name_of(WeightFormat format);

/// weight (f32, f64, f16 or bf16, [rows, dim]) in a format; the tensor itself where it is in it already. An int8 matrix
/// carries its scales with its storage. Throws ShapeError for anything but a matrix of floats. Not recorded.
Tensor in_format(const Tensor& weight, WeightFormat format);

/// What a matrix of any format stands for, as f32.
Tensor as_f32(const Tensor& weight);

/// One factor for each row of an int8 matrix, f32 [rows]; throws ShapeError for others.
Tensor row_scales(const Tensor& weight);

/// Whether it is held in bf16, or in i8 with scales: for inference only.
bool is_reduced(const Tensor& weight);

}  // namespace attend
