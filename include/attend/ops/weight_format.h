#pragma once

#include "attend/tensor/tensor.h"

// For inference, the weight matrices of linear layers and embeddings may be stored in fewer bits. linear() and
// embedding() accept all formats; activations stay f32.
namespace attend {

enum class WeightFormat {
  f32,
  bf16,  ///< each f32 rounded to bf16; products widen it to f32 and are bitwise identical to f32 products
  int8,  ///< integers in −127 … 127, times one scale per row: the row's largest magnitude / 127
};
const char* name_of(WeightFormat format);

/// Converts weight [rows, dim] (f32, f64, f16 or bf16) to a format; returns the tensor itself if it has this format
/// already. The storage of an int8 matrix holds its scales. Throws ShapeError unless `weight` is a floating-point
/// matrix, or an int8 matrix and `format` is int8. Not recorded.
Tensor in_format(const Tensor& weight, WeightFormat format);

/// The values of a matrix in any format, as f32.
Tensor as_f32(const Tensor& weight);

/// The scales of an int8 matrix, f32 [rows]. Throws ShapeError for a matrix in another format.
Tensor row_scales(const Tensor& weight);

/// Keeps, beside a matrix in any format, a copy in the layout that products with several rows read fastest, in the
/// precision of the calling thread. Results keep their bits in any precision. The copy takes as much memory as the
/// matrix, so it is for matrices that serve many requests, and the matrix must not change afterwards. Does nothing on
/// devices and in formats that gain nothing.
void pack_matrix(const Tensor& weight);

/// Whether the matrix is bf16, or int8 with scales. Such a matrix is for inference only.
bool is_reduced(const Tensor& weight);

}  // namespace attend
