#pragma once

#include "attend/tensor/tensor.h"

namespace attend {

Tensor relu(const Tensor& x);
Tensor gelu(const Tensor& x);       ///< x · Φ(x), with the error function
Tensor gelu_tanh(const Tensor& x);  ///< GPT-2's approximation of gelu
Tensor silu(const Tensor& x);       ///< x · sigmoid(x), also called swish
Tensor tanh(const Tensor& x);
Tensor sigmoid(const Tensor& x);

}  // namespace attend
