#pragma once

#include "backend/kernels.h"

namespace attend {

/// Selects a GPU for the calling thread and returns its kernels. Throws DeviceError if there is no such GPU.
const Kernels& select_cuda(int index);

}  // namespace attend
