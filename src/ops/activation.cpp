#include "attend/ops/activation.h"

#include "ops/unary.h"

namespace attend {

Tensor relu(const Tensor& x) { return unary(UnaryKind::relu, "relu", x); }
Tensor gelu(const Tensor& x) { return unary(UnaryKind::gelu, "gelu", x); }
Tensor gelu_tanh(const Tensor& x) { return unary(UnaryKind::gelu_tanh, "gelu_tanh", x); }
Tensor silu(const Tensor& x) { return unary(UnaryKind::silu, "silu", x); }
Tensor tanh(const Tensor& x) { return unary(UnaryKind::tanh, "tanh", x); }
Tensor sigmoid(const Tensor& x) { return unary(UnaryKind::sigmoid, "sigmoid", x); }

}  // namespace attend
