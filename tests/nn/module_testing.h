#pragma once

#include <utility>
#include <vector>

#include "attend/nn/parameters.h"
#include "testing/gradients.h"

namespace attend::testing {

/// A module as a function of tensors (its inputs, then all parameters), for gradient checks.
template <class Module, class Forward>
std::pair<TensorFunction, std::vector<Tensor>> as_function(Module module, const std::vector<Tensor>& inputs,
                                                           Forward forward) {
  convert_to(module, DType::f64);
  std::vector<Tensor> all = inputs;
  for (const auto& [name, tensor] : named_parameters(module)) all.push_back(tensor.detach());
  const size_t count = inputs.size();
  const TensorFunction function = [module, forward, count](const std::vector<Tensor>& tensors) {
    Module own = module;
    size_t next = count;
    for_each_parameter(own, "", [&](const std::string&, Tensor& tensor) { tensor = tensors[next++]; });
    return forward(own, std::vector<Tensor>(tensors.begin(), tensors.begin() + static_cast<std::ptrdiff_t>(count)));
  };
  return {function, all};
}

/// Checks the gradients of every input and every parameter, in f64.
template <class Module, class Forward>
void expect_module_gradients(const Module& module, const std::vector<Tensor>& inputs, Forward forward,
                             double tolerance = 1e-6) {
  const auto [function, all] = as_function(module, inputs, forward);
  expect_gradients(function, all, tolerance);
}

template <class Module, class Forward>
void expect_module_same_bits(const Module& module, const std::vector<Tensor>& inputs, Forward forward) {
  const auto [function, all] = as_function(module, inputs, forward);
  expect_same_bits(function, all);
}

template <class Module>
Module in_f64(Module module) {
  convert_to(module, DType::f64);
  return module;
}

inline std::vector<double> values(const Tensor& tensor) { return tensor.to_vector<double>(); }

inline void expect_equal(const Tensor& got, const Tensor& expected, double tolerance = 1e-12) {
  ASSERT_EQ(got.shape(), expected.shape());
  expect_close(got, values(expected), tolerance);
}

}  // namespace attend::testing
