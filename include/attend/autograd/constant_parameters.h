#pragma once

#include <cstdint>

namespace attend {

/// While a ConstantParameters is alive, tensors that required a gradient before are constants on this thread. Leaves
/// that are made during its life are not. So the gradient of an input costs nothing for the model's parameters, and
/// leaves their gradients alone. Scopes may be nested.
class ConstantParameters {
 public:
  ConstantParameters();
  ~ConstantParameters();
  ConstantParameters(const ConstantParameters&) = delete;
  ConstantParameters& operator=(const ConstantParameters&) = delete;

 private:
  uint64_t before_;
};

}  // namespace attend
