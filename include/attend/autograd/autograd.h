#pragma once

#include <functional>
#include <initializer_list>
#include <utility>
#include <vector>

#include "attend/tensor/tensor.h"

namespace attend {

/// One gradient for each input of a node, in order; an empty tensor where none is needed.
using Gradients = std::vector<Tensor>;
using BackwardFunction = std::function<Gradients(const Tensor& dy)>;

/// Asks for gradients with respect to `tensor` (a leaf: a parameter or an input); returns the same handle.
Tensor& set_requires_grad(Tensor& tensor, bool required = true);
/// A detached copy of the handle that requires a gradient.
Tensor parameter(const Tensor& tensor);

/// True when results computed from `tensor` now would be recorded.
bool needs_grad(const Tensor& tensor);
/// What backward() left for a leaf; empty if nothing yet.
Tensor grad(const Tensor& tensor);
void set_grad(const Tensor& tensor, Tensor value);
void zero_grad(const Tensor& tensor);  ///< forgets the gradient

/// Notes how `y` came from `inputs`, if any of them needs a gradient and recording is on; returns y's recorded handle.
/// `backward` turns the gradient of y into those of the inputs. It must not capture the returned handle (the node would
/// own itself); capturing `y` itself is right.
Tensor record(const char* name, const Tensor& y, const std::vector<Tensor>& inputs, BackwardFunction backward);

/// A tensor that outlives the call it is named in.
class TensorRef {
 public:
  TensorRef(const Tensor& tensor) : tensor_(&tensor) {}  // NOLINT(google-explicit-constructor)
  const Tensor& operator*() const { return *tensor_; }

 private:
  const Tensor* tensor_;
};

/// The same for inputs named one by one: nothing is copied or allocated where nothing is recorded.
template <class Backward>
Tensor record(const char* name, Tensor y, std::initializer_list<TensorRef> inputs, Backward&& backward) {
  bool any = false;
  for (const TensorRef& input : inputs) any = any || needs_grad(*input);
  if (!any) return y;
  std::vector<Tensor> all;
  for (const TensorRef& input : inputs) all.push_back(*input);
  return record(name, y, all, BackwardFunction(std::forward<Backward>(backward)));
}

/// Runs the chain rule from `y` to every leaf that requires a gradient, adding to what is there. `dy` defaults to 1 and
/// is then required to be left out only where y has one element. The recorded graph is freed on the way: a second call
/// from the same y throws.
void backward(const Tensor& y, const Tensor& dy = {});

/// While alive, nothing is recorded on this thread.
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
