#pragma once

#include <atomic>
#include <memory>

#include "backend/cuda/memory.h"
#include "backend/cuda/runtime.h"
#include "backend/cuda/transfer.h"
#include "backend/plugin.h"

// The devices of the plug-in and their state.
namespace attend::cuda {

/// Everything that the plug-in keeps for one device.
struct DeviceState {
  int index = 0, multiprocessors = 0, architecture = 0;
  cudaStream_t stream = nullptr;
  Memory memory;
  Transfer transfer;
};

/// The current device of the calling thread. Throws DeviceError if it has selected none.
DeviceState& current();

struct Counters {
  std::atomic<uint64_t> launches{0}, synchronizations{0};
};
Counters& counters();

int open_devices();
PluginDevice describe_device(int index);
void select_device(int index);
void set_host(const PluginHost* host);

/// Throws DeviceError if cuBLASLt cannot be opened. See matmul/blas.h.
void open_blas();

const Kernels& table();

}  // namespace attend::cuda
