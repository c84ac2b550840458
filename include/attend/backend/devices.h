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
};

/// All devices of this machine: the CPU first, then the GPUs that can be used.
std::vector<DeviceInfo> devices();

/// The number of GPUs that can be used. The first call opens the CUDA plug-in.
int cuda_devices();

/// Why no GPU can be used, in one line: no driver, no plug-in, a driver that is too old. Empty if there is one.
std::string cuda_problem();

/// The device of a name: `cpu`, `cuda` (the same as `cuda:0`), `cuda:N`, or `auto`, which is the first GPU if one can
/// be used and the CPU otherwise. Throws DeviceError, in one line, if the name is unknown or the device cannot be used.
Device parse_device(std::string_view name);

/// Counts of all GPUs since the start of the program; 0 as long as no GPU was used.
struct DeviceCounters {
  size_t launches = 0;          ///< launched kernels
  size_t synchronizations = 0;  ///< times that the host waited for a GPU
};
DeviceCounters device_counters();

}  // namespace attend
