#include "nn/recurrent_scan.h"

#include <memory>

#include "attend/ops/activation.h"
#include "attend/ops/arithmetic.h"
#include "attend/ops/linear.h"
#include "attend/ops/matmul.h"
#include "attend/ops/reduce.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"

namespace attend {
namespace {

Tensor gate(const Tensor& gates, int64_t index, int64_t hidden) {
  return slice(gates, 1, index * hidden, (index + 1) * hidden);
}

Tensor gru_cell(const Tensor& from_input, const Tensor& from_hidden, const Tensor& h) {
  const int64_t hidden = h.dim(1);
  const Tensor r = sigmoid(gate(from_input, 0, hidden) + gate(from_hidden, 0, hidden));
  const Tensor z = sigmoid(gate(from_input, 1, hidden) + gate(from_hidden, 1, hidden));
  const Tensor n = tanh(gate(from_input, 2, hidden) + r * gate(from_hidden, 2, hidden));
  return n + z * (h - n);
}

Tensor lstm_cell(const Tensor& from_input, const Tensor& from_hidden, const Tensor& state) {
  const int64_t hidden = state.dim(1) / 2;
  const Tensor gates = from_input + from_hidden;
  const Tensor i = sigmoid(gate(gates, 0, hidden)), f = sigmoid(gate(gates, 1, hidden));
  const Tensor g = tanh(gate(gates, 2, hidden)), o = sigmoid(gate(gates, 3, hidden));
  const Tensor c = f * gate(state, 1, hidden) + i * g;
  return concat({o * tanh(c), c}, 1);
}

/// One step as a separate recorded graph from leaves to `next`.
struct Step {
  int64_t time = 0;
  Tensor from_input, from_hidden, state;
  Tensor next;
};

Tensor next_state(const Step& step, const ScanOptions& options) {
  const Tensor moved = cell(options.kind, step.from_input, step.from_hidden, step.state);
  const Tensor alive = options.alive.empty() ? Tensor{} : options.alive[static_cast<size_t>(step.time)];
  return alive ? moved * alive + step.state * scale(alive, -1, 1) : moved;
}

/// Backpropagation through time. Each step adds the gradient of its h through the hidden weights. The gradient of the
/// hidden weights, Σ_t dgates_tᵀ h_{t−1}, is one product over all steps at the end.
Gradients scan_backward(const Tensor& dy, std::vector<Step>& steps, const Tensor& weight, bool bias) {
  const size_t length = steps.size();
  const int64_t hidden = weight.dim(1);
  std::vector<Tensor> dinput(length), dhidden(length), before(length);
  Tensor dstate;
  for (size_t n = length; n-- > 0;) {
    Step& step = steps[n];
    const auto time = static_cast<size_t>(step.time);
    const Tensor own = select(dy, 1, step.time);
    backward(step.next, dstate ? own + dstate : own);
    dinput[time] = grad(step.from_input);
    dhidden[time] = grad(step.from_hidden);
    before[time] = slice(step.state.detach(), 1, 0, hidden);
    Tensor through = matmul(dhidden[time], weight);
    const int64_t rest = step.state.dim(1) - hidden;
    if (rest > 0) through = concat({through, zeros({through.dim(0), rest}, {through.dtype(), through.device()})}, 1);
    const Tensor direct = grad(step.state);
    dstate = direct ? direct + through : through;
    step = {};
  }
  const int64_t rows = dy.dim(0) * dy.dim(1);
  const Tensor gates = reshape(stack(dhidden, 1), {rows, weight.dim(0)});
  const Tensor dweight = matmul(transpose(gates, 0, 1), reshape(stack(before, 1), {rows, hidden}));
  return {stack(dinput, 1), dweight, bias ? sum(gates, 0) : Tensor{}, dstate};
}

}  // namespace

Tensor cell(CellKind kind, const Tensor& from_input, const Tensor& from_hidden, const Tensor& state) {
  switch (kind) {
    case CellKind::tanh:
      return tanh(from_input + from_hidden);
    case CellKind::relu:
      return relu(from_input + from_hidden);
    case CellKind::gru:
      return gru_cell(from_input, from_hidden, state);
    case CellKind::lstm:
      return lstm_cell(from_input, from_hidden, state);
  }
  throw ShapeError("cell: unknown cell kind");
}

Tensor scan(const Tensor& from_input, const Linear& hidden, const Tensor& initial, const ScanOptions& options) {
  const int64_t length = from_input.dim(1), width = hidden.weight.dim(1);
  const Tensor weight = hidden.weight.detach(), bias = hidden.bias ? hidden.bias.detach() : Tensor{};
  const bool recorded =
      needs_grad(from_input) || needs_grad(hidden.weight) || needs_grad(hidden.bias) || needs_grad(initial);
  const auto leaf = [&](const Tensor& x) { return recorded ? parameter(x) : x; };
  const Tensor inputs = from_input.detach();

  const auto steps = std::make_shared<std::vector<Step>>();
  std::vector<Tensor> states(static_cast<size_t>(length));
  Tensor state = initial.detach();
  for (int64_t n = 0; n < length; ++n) {
    Step step{.time = options.reverse ? length - 1 - n : n};
    step.from_input = leaf(select(inputs, 1, step.time));
    step.from_hidden = leaf(to(linear(slice(state, 1, 0, width), weight, bias), state.dtype()));
    step.state = leaf(state);
    step.next = next_state(step, options);
    state = step.next.detach();
    states[static_cast<size_t>(step.time)] = state;
    if (recorded) steps->push_back(std::move(step));
  }
  return record("recurrent", stack(states, 1), {from_input, hidden.weight, hidden.bias, initial},
                [steps, weight, bias](const Tensor& dy) -> Gradients {
                  return scan_backward(dy, *steps, weight, static_cast<bool>(bias));
                });
}

}  // namespace attend
