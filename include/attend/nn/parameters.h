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

// Modules are plain structs. The static function fields(visit) of a module calls visit(name, member) for each member.
// Loading, saving, optimising, counting and moving parameters all use these lists of members:
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

/// Calls visit(name, tensor) for every parameter in `node`, which is a Tensor, a struct with fields(), or a std::vector
/// or std::optional of such nodes. Names are joined with dots (`layers.1.attention.query.weight`). A vector adds the
/// index of the element to the name; an optional adds nothing. Empty tensors and optionals are skipped.
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
  // for_each_parameter() passes mutable references because move_to() replaces tensors. Here they are only copied.
  for_each_parameter(const_cast<Model&>(model), "",
                     [&](const std::string& name, Tensor& tensor) { result.emplace_back(name, tensor); });
  return result;
}

/// The number of trainable values, that is, of the elements of all parameters.
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

/// A new parameter with the given value. It requires a gradient if `tensor` does; its gradient is empty.
Tensor replace_parameter(const Tensor& tensor, const Tensor& value);
/// The parameter on a device, or in a dtype. Returns `tensor` itself if nothing changes.
Tensor moved_parameter(const Tensor& tensor, Device device);
Tensor converted_parameter(const Tensor& tensor, DType dtype);

/// Moves every parameter to a device, or converts it to a dtype. Existing handles, such as an optimiser's, keep the old
/// data: call these functions before creating the optimiser.
template <class Model>
void move_to(Model& model, Device device) {
  for_each_parameter(model, "", [&](const std::string&, Tensor& tensor) { tensor = moved_parameter(tensor, device); });
}
template <class Model>
void convert_to(Model& model, DType dtype) {
  for_each_parameter(model, "",
                     [&](const std::string&, Tensor& tensor) { tensor = converted_parameter(tensor, dtype); });
}

/// Throws ShapeError unless `values` has exactly the names of the parameters, and every shape matches.
void check_values(const std::vector<NamedTensor>& parameters, const std::map<std::string, Tensor>& values);
/// Copies `values` into the parameters of the same names, converting dtypes. Throws ShapeError unless the names are
/// exactly the same and every shape matches; the parameters are then unchanged.
void load_values(const std::vector<NamedTensor>& parameters, const std::map<std::string, Tensor>& values);

template <class Model>
void load_parameters(const Model& model, const std::map<std::string, Tensor>& values) {
  load_values(named_parameters(model), values);
}

/// The parameters by name, outside the recorded graph. The tensors share the model's data.
template <class Model>
std::map<std::string, Tensor> save_parameters(const Model& model) {
  std::map<std::string, Tensor> result;
  for (const auto& [name, tensor] : named_parameters(model)) result[name] = tensor.detach();
  return result;
}

}  // namespace attend
