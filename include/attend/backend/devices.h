#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "attend/base/device.h"

namespace attend {

/// A device of this machine. Printed by `attend info --devices`.
struct DeviceInfo {
  Device device;
  std::string name;
  size_t total_memory = 0, free_memory = 0;  ///< bytes
  int architecture = 0;                      ///< compute capability of a GPU: 90 for 9.0; 0 for the CPU
  std::string driver;                        ///< driver version; empty for the CPU
  std::string problem{};                     ///< why the device cannot be used now, in one line; empty if it can
};

/// All devices of this machine: the CPU first, then the GPUs.
std::vector<DeviceInfo> devices();

/// Describes one device. Throws DeviceError if there is no such device.
DeviceInfo device_info(Device device);

/// The number of GPUs that can be used. The first call opens the CUDA plug-in.
int cuda_devices();

/// Why no GPU can be used, in one line: no driver, no plug-in, a driver that is too old. Empty if there is one.
std::string cuda_problem();

/// cuda_problem() on a machine whose NVIDIA driver finds a GPU, or with ATTEND_CUDA_PLUGIN set: the GPU could be used
/// if the problem were solved. Empty on a machine that has no GPU, or whose GPU can be used.
std::string cuda_fault();

/// The device of a name: `cpu`, `cuda` (the same as `cuda:0`), `cuda:N`, or `auto`, which is the first GPU if one can
/// be used and the CPU otherwise. Throws, in one line, ShapeError if the name is unknown and DeviceError if the device
/// cannot be used.
Device parse_device(std::string_view name);

/// Counts of all GPUs since the start of the program; 0 as long as no GPU was used.
struct DeviceCounters {
  size_t launches = 0;          ///< kernels that were launched one by one
  size_t graph_launches = 0;    ///< launched graphs of kernels
  size_t synchronizations = 0;  ///< times that the host waited for a GPU
};
DeviceCounters device_counters();

}  // namespace attend
