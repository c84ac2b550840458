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
  std::atomic<bool> is_capturing{false};  // a graph
  Memory memory;
  Transfer transfer;
};

/// The current device of the calling thread. Throws DeviceError if it has selected none.
DeviceState& current();

struct Counters {
  std::atomic<uint64_t> launches{0}, graph_launches{0}, synchronizations{0};
};
Counters& counters();

int open_devices();
PluginDevice describe_device(int index);
void select_device(int index);
void set_host(const PluginHost* host);

/// See PluginGraphs in backend/plugin.h.
void begin_capture();
void* end_capture();
void abandon_capture();
void launch_graph(void* graph);
void destroy_graph(void* graph);
size_t graph_kernels(const void* graph);

/// Messages by NCCL: see PluginMessages in backend/plugin.h.
extern const PluginMessages kMessages;

/// Throws DeviceError if cuBLASLt cannot be opened. See matmul/blas.h.
void open_blas();

const Kernels& table();

}  // namespace attend::cuda
