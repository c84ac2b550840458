#pragma once

#include "attend/tensor/tensor.h"

namespace attend {

/// While a TrustedIndices is alive, ops on this thread do not check the values of integer tensors on a GPU: token ids,
/// targets, lengths and offsets. So nothing is read back from the device. The caller must have checked the values,
/// because a value out of range makes kernels read or write outside of a tensor. Tensors on the host are always
/// checked.
class TrustedIndices {
 public:
  TrustedIndices();
  ~TrustedIndices();
  TrustedIndices(const TrustedIndices&) = delete;
  TrustedIndices& operator=(const TrustedIndices&) = delete;

 private:
  bool before_;
};

/// Whether the values of this tensor need no check.
bool is_trusted(const Tensor& index);

}  // namespace attend
