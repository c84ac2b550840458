#pragma once

#include <functional>
#include <initializer_list>
#include <type_traits>
#include <utility>
#include <vector>

#include "attend/tensor/tensor.h"

namespace attend {

/// One gradient for each input of a node, in order. A gradient that is not needed is an empty tensor.
using Gradients = std::vector<Tensor>;
/// Maps the gradient of a node's result to the gradients of its inputs. sums[i] is the sum of the gradients that input
/// i has received so far, or empty. The function may add the input's gradient to it in place and return it.
using BackwardFunction = std::function<Gradients(const Tensor& dy, const Gradients& sums)>;

/// Makes `tensor` a leaf of the recorded graph that receives a gradient, or a constant if `required` is false. Returns
/// `tensor`. Throws ShapeError unless the dtype is a floating-point type.
Tensor& set_requires_grad(Tensor& tensor, bool required = true);
/// A new handle to the same data that requires a gradient.
Tensor parameter(const Tensor& tensor);

/// True if operations on `tensor` would be recorded: it is part of the graph, and no NoGrad is alive on this thread.
bool needs_grad(const Tensor& tensor);
/// The gradient that backward() accumulated for a leaf; empty if there is none.
Tensor grad(const Tensor& tensor);
/// Replaces the gradient of a leaf. Throws ShapeError or DeviceError unless `value` has the shape, dtype and device of
/// `tensor`, or is empty.
void set_grad(const Tensor& tensor, Tensor value);
void zero_grad(const Tensor& tensor);  ///< removes the gradient

/// Records that the op `name` computed `y` from `inputs`, and returns a recorded handle to y. Returns `y` unchanged if
/// no input needs a gradient. `backward` maps the gradient of y, which has y's dtype, to the gradients of the inputs;
/// they are converted to the inputs' dtypes. It may capture `y` but not the returned handle, because the node would
/// then own itself. `sums` are passed only if `adds_in_place`, and only on a GPU.
Tensor record_node(const char* name, const Tensor& y, const std::vector<Tensor>& inputs, BackwardFunction backward,
                   bool adds_in_place);

/// record_node with a function of dy, or of dy and sums.
template <class Backward>
Tensor record(const char* name, const Tensor& y, const std::vector<Tensor>& inputs, Backward&& backward) {
  constexpr bool kAdds = std::is_invocable_v<Backward&, const Tensor&, const Gradients&>;
  if constexpr (kAdds) {
    return record_node(name, y, inputs, BackwardFunction(std::forward<Backward>(backward)), true);
  } else {
    return record_node(
        name, y, inputs,
        [function = std::forward<Backward>(backward)](const Tensor& dy, const Gradients&) { return function(dy); },
        false);
  }
}

/// A reference to a tensor that outlives the call in which the reference is an argument.
class TensorRef {
 public:
  TensorRef(const Tensor& tensor) : tensor_(&tensor) {}  // NOLINT(google-explicit-constructor)
  const Tensor& operator*() const { return *tensor_; }

 private:
  const Tensor* tensor_;
};

/// Overload for a braced list of inputs. Copies and allocates nothing if no input needs a gradient.
template <class Backward>
Tensor record(const char* name, Tensor y, std::initializer_list<TensorRef> inputs, Backward&& backward) {
  bool any = false;
  for (const TensorRef& input : inputs) any = any || needs_grad(*input);
  if (!any) return y;
  std::vector<Tensor> all;
  for (const TensorRef& input : inputs) all.push_back(*input);
  return record(name, y, all, std::forward<Backward>(backward));
}

/// Records that `compute` returns `y`, whose own record is not kept: backward() calls `compute` again, with recording,
/// and continues in the graph that results. So the tensors between what `compute` captures and `y` take no memory until
/// then, and the gradients have the same bits as without recomputation. `compute` must return the same values as
/// before: it must use the same random streams. Returns `y` unchanged while a NoGrad is alive.
Tensor recomputed(const Tensor& y, std::function<Tensor()> compute);

/// Computes the gradient of `y` with respect to every leaf and adds it to the leaf's gradient. `dy` is the gradient of
/// `y`; it may be omitted only if `y` is a scalar, and is then 1. Frees the recorded graph: a second call with the same
/// `y` throws ShapeError.
void backward(const Tensor& y, const Tensor& dy = {});

/// Whether `dy` is the 1 with which the backward() that is running on this thread started. Multiplying by it changes
/// nothing.
bool is_seed(const Tensor& dy);

/// While a NoGrad is alive, nothing is recorded on this thread. Scopes may be nested.
class NoGrad {
 public:
  NoGrad();
  ~NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  bool before_;
};

}  // namespace attend
