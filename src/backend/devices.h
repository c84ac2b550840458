#pragma once

#include "backend/kernels.h"
#include "backend/plugin.h"

namespace attend {

/// Selects a GPU for the calling thread and returns its kernels. Throws DeviceError if there is no such GPU.
const Kernels& select_cuda(int index);

/// The functions for graphs of a GPU. Throws DeviceError if there is no such GPU.
const PluginGraphs& cuda_graphs(int index);

/// The functions for messages of a GPU. Throws DeviceError if there is no such GPU.
const PluginMessages& cuda_messages(int index);

}  // namespace attend
