#include "attend/ops/arithmetic.h"

#include "ops/broadcast.h"
#include "ops/check.h"

namespace attend {
namespace {

/// a ∘ b, where ∘ is the op that `kind` names. The operands broadcast. If one of them is f32 and the other has 16 bits,
/// so has the result. Not recorded.
Tensor combine(BinaryKind kind, const Tensor& a, const Tensor& b, const char* op) {
  if (is_16_bit(b.dtype()) && !is_16_bit(a.dtype())) return combine(kind, to(a, b.dtype()), b, op);
  const Shape shape = broadcast_shapes(a.shape(), b.shape(), op);
  Tensor y = empty(shape, {a.dtype(), a.device()});
  kernels(a.device())
      .elementwise.binary(kind, stretched(a, shape, op).view(), stretched(b, shape, op).view(), y.view());
  return y;
}

Tensor affine(const Tensor& x, double factor, double shift) {
  Tensor y = empty_like(x);
  kernels(x.device()).elementwise.affine(x.view(), factor, shift, y.view());
  return y;
}

void check_operands(const Tensor& a, const Tensor& b, const char* op) {
  require_float(a, op, "a");
  require_float(b, op, "b");
  require<ShapeError>(a.dtype() == b.dtype() || sum_dtype(a.dtype()) == b.dtype() || a.dtype() == sum_dtype(b.dtype()),
                      op, ": a is ", a.dtype(), " but b is ", b.dtype());
  require<DeviceError>(a.device() == b.device(), op, ": a is on ", a.device(), " but b is on ", b.device());
}

/// One operand of a binary op, for its gradient.
struct Operand {
  Tensor value;  // outside the graph
  bool needs = false;
  explicit Operand(const Tensor& tensor) : value(tensor.detach()), needs(needs_grad(tensor)) {}
  /// The gradient f(), summed to this operand's shape and dtype; empty if the operand needs no gradient.
  template <class F>
  Tensor gradient(F&& f) const {
    return needs ? reduced_to(f(), value.shape(), value.dtype()) : Tensor{};
  }
};

Tensor apply_unary(UnaryKind kind, const Tensor& x) {
  Tensor y = empty_like(x);
  kernels(x.device()).elementwise.unary(kind, rows(dense(x)), rows(y));
  return y;
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) {
  check_operands(a, b, "add");
  return record("add", combine(BinaryKind::add, a, b, "add"), {a, b},
                [p = Operand(a), q = Operand(b)](const Tensor& dy) -> Gradients {
                  return {p.gradient([&] { return dy; }), q.gradient([&] { return dy; })};
                });
}

Tensor subtract(const Tensor& a, const Tensor& b) {
  check_operands(a, b, "subtract");
  return record("subtract", combine(BinaryKind::subtract, a, b, "subtract"), {a, b},
                [p = Operand(a), q = Operand(b)](const Tensor& dy) -> Gradients {
                  return {p.gradient([&] { return dy; }), q.gradient([&] { return affine(dy, -1, 0); })};
                });
}

Tensor multiply(const Tensor& a, const Tensor& b) {
  check_operands(a, b, "multiply");
  return record("multiply", combine(BinaryKind::multiply, a, b, "multiply"), {a, b},
                [p = Operand(a), q = Operand(b)](const Tensor& dy) -> Gradients {
                  return {p.gradient([&] { return combine(BinaryKind::multiply, dy, q.value, "multiply"); }),
                          q.gradient([&] { return combine(BinaryKind::multiply, dy, p.value, "multiply"); })};
                });
}

// y = a / b: da = dy / b, db = −dy · y / b.
Tensor divide(const Tensor& a, const Tensor& b) {
  check_operands(a, b, "divide");
  const Tensor y = combine(BinaryKind::divide, a, b, "divide");
  return record("divide", y, {a, b}, [y, p = Operand(a), q = Operand(b)](const Tensor& dy) -> Gradients {
    const Tensor quotient = combine(BinaryKind::divide, dy, q.value, "divide");
    return {p.gradient([&] { return quotient; }),
            q.gradient([&] { return affine(combine(BinaryKind::multiply, quotient, y, "divide"), -1, 0); })};
  });
}

Tensor scale(const Tensor& x, double factor, double shift) {
  require_float(x, "scale");
  return record("scale", affine(x, factor, shift), {x},
                [factor](const Tensor& dy) -> Gradients { return {affine(dy, factor, 0)}; });
}

Tensor exp(const Tensor& x) {
  require_float(x, "exp");
  const Tensor y = apply_unary(UnaryKind::exp, x);
  return record("exp", y, {x},
                [y](const Tensor& dy) -> Gradients { return {combine(BinaryKind::multiply, dy, y, "exp")}; });
}

Tensor log(const Tensor& x) {
  require_float(x, "log");
  return record("log", apply_unary(UnaryKind::log, x), {x}, [value = x.detach()](const Tensor& dy) -> Gradients {
    return {combine(BinaryKind::divide, dy, value, "log")};
  });
}

}  // namespace attend
