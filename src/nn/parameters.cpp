#include "attend/nn/parameters.h"

#include "attend/tensor/creation.h"

namespace attend {

Tensor replace_parameter(const Tensor& tensor, const Tensor& value) {
  return tensor.variable() ? parameter(value) : value.detach();
}

// to() returns the tensor itself if nothing changes. Then the result is the old handle, with its gradient.
Tensor moved_parameter(const Tensor& tensor, Device device) {
  return tensor.device() == device ? tensor : replace_parameter(tensor, to(tensor, device));
}

Tensor converted_parameter(const Tensor& tensor, DType dtype) {
  return tensor.dtype() == dtype ? tensor : replace_parameter(tensor, to(tensor, dtype));
}

void check_values(const std::vector<NamedTensor>& parameters, const std::map<std::string, Tensor>& values) {
  for (const auto& [name, target] : parameters) {
    const auto found = values.find(name);
    require<ShapeError>(found != values.end(), "load: no value for parameter ", name);
    require<ShapeError>(found->second.shape() == target.shape(), "load: parameter ", name, " has shape ",
                        target.shape(), " but the value has ", found->second.shape());
  }
  std::map<std::string, Tensor> rest = values;
  for (const auto& [name, target] : parameters) rest.erase(name);
  for (const auto& [name, value] : rest) {
    require<ShapeError>(false, "load: the model has no parameter ", name, " (", rest.size(), " unknown in all)");
  }
}

void load_values(const std::vector<NamedTensor>& parameters, const std::map<std::string, Tensor>& values) {
  check_values(parameters, values);
  for (const auto& [name, target] : parameters) copy_values(values.at(name), target);
}

}  // namespace attend
