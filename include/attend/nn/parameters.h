#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "attend/autograd/autograd.h"
#include "attend/tensor/tensor.h"

// Modules are plain structs. Each lists its members once in a static fields(visit), which calls visit(name, member) for
// each of them; everything that needs all parameters of a model (loading, saving, optimising, counting, moving to a
// device) walks those lists:
//
//   static void fields(auto&& visit) {
//     visit("weight", &Linear::weight);
//     visit("bias", &Linear::bias);
//   }
namespace attend {
namespace detail {

template <class T>
inline constexpr bool is_vector = false;
template <class T>
inline constexpr bool is_vector<std::vector<T>> = true;
template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;

inline std::string join_name(const std::string& prefix, std::string_view name) {
  return prefix.empty() ? std::string(name) : prefix + "." + std::string(name);
}

}  // namespace detail

using ParameterVisitor = std::function<void(const std::string& name, Tensor& parameter)>;

/// Calls visit(name, tensor) for every parameter below `node`: a Tensor, a struct with fields(), or a std::vector or
/// std::optional of those. Names are joined with dots (`layers.1.attention.query.weight`); a vector adds its index, an
/// optional nothing. Empty tensors and optionals are skipped.
template <class Node>
void for_each_parameter(Node& node, const std::string& prefix, const ParameterVisitor& visit) {
  if constexpr (std::is_same_v<Node, Tensor>) {
    if (node) visit(prefix, node);
  } else if constexpr (detail::is_optional<Node>) {
    if (node) for_each_parameter(*node, prefix, visit);
  } else if constexpr (detail::is_vector<Node>) {
    for (size_t i = 0; i < node.size(); ++i) {
      for_each_parameter(node[i], detail::join_name(prefix, std::to_string(i)), visit);
    }
  } else {
    Node::fields([&](const char* name, auto member) {
      for_each_parameter(node.*member, detail::join_name(prefix, name), visit);
    });
  }
}
/// Every parameter with its name, in the order of the fields. The handles share the model's data and gradients.
template <class Model>
std::vector<NamedTensor> named_parameters(const Model& model) {
  std::vector<NamedTensor> result;
  // The walk hands out references because move_to() replaces tensors; here they are only copied.
  for_each_parameter(const_cast<Model&>(model), "",
                     [&](const std::string& name, Tensor& tensor) { result.emplace_back(name, tensor); });
  return result;
}

/// The number of trainable values.
template <class Model>
int64_t count_parameters(const Model& model) {
  int64_t count = 0;
  for (const auto& [name, tensor] : named_parameters(model)) count += tensor.numel();
  return count;
}

/// Clears the gradients of all parameters.
template <class Model>
requires requires {
  Model::fields([](const char*, auto) {});
}
void zero_grad(const Model& model) {
  for (const auto& [name, tensor] : named_parameters(model)) zero_grad(tensor);
}

/// A parameter like `tensor` that holds `value`: requires a gradient if `tensor` did, and has none yet.
Tensor replace_parameter(const Tensor& tensor, const Tensor& value);
Tensor moved_parameter(const Tensor& tensor, Device device);
Tensor converted_parameter(const Tensor& tensor, DType dtype);

/// Puts every parameter on a device, or into another dtype. Handles taken before (an optimiser's) keep the old data:
/// do this first.
template <class Model>
void move_to(Model& model, Device device) {
  for_each_parameter(model, "", [&](const std::string&, Tensor& tensor) { tensor = moved_parameter(tensor, device); });
}
template <class Model>
void convert_to(Model& model, DType dtype) {
  for_each_parameter(model, "",
                     [&](const std::string&, Tensor& tensor) { tensor = converted_parameter(tensor, dtype); });
}

/// Throws ShapeError unless there is exactly one value for each parameter, by name, and every shape fits.
void check_values(const std::vector<NamedTensor>& parameters, const std::map<std::string, Tensor>& values);
/// Copies `values` into the parameters of the same names, converting dtypes. Throws ShapeError, having changed nothing,
/// unless the names are exactly the same and every shape fits.
void load_values(const std::vector<NamedTensor>& parameters, const std::map<std::string, Tensor>& values);

template <class Model>
void load_parameters(const Model& model, const std::map<std::string, Tensor>& values) {
  load_values(named_parameters(model), values);
}

/// The parameters by name, without history: aliases, not copies.
template <class Model>
std::map<std::string, Tensor> save_parameters(const Model& model) {
  std::map<std::string, Tensor> result;
  for (const auto& [name, tensor] : named_parameters(model)) result[name] = tensor.detach();
  return result;
}

}  // namespace attend
