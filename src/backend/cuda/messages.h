#pragma once

#include <sstream>
#include <string>

// The texts of the errors that a user of a GPU may meet, each in one line: what was needed, what is there, what to do.
namespace attend::cuda {

/// A version as CUDA counts it: 13000 is 13.0.
inline std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// A number of bytes in the largest unit that leaves at least one.
inline std::string readable(size_t bytes) {
  std::ostringstream text;
  text.precision(3);
  if (bytes >= size_t{1} << 30) {
    text << static_cast<double>(bytes) / (1 << 30) << " GiB";
  } else if (bytes >= size_t{1} << 20) {
    text << static_cast<double>(bytes) / (1 << 20) << " MiB";
  } else {
    text << bytes << " bytes";
  }
  return text.str();
}

inline std::string no_driver_text() { return "cuda: no NVIDIA driver is installed"; }

inline std::string no_gpu_text() { return "cuda: there is a driver, but no NVIDIA GPU"; }

/// The newest version of CUDA that the driver supports, and the one that the plug-in was built with.
inline std::string old_driver_text(int driver, int needed) {
  return "cuda: the NVIDIA driver is too old: it supports CUDA " + version_text(driver) +
         ", but this plug-in was built with CUDA " + version_text(needed) + "; update the driver";
}

/// Compute capabilities, as 90 for 9.0.
inline std::string old_gpu_text(int index, int architecture, int needed) {
  const auto text = [](int number) { return std::to_string(number / 10) + "." + std::to_string(number % 10); };
  return "cuda:" + std::to_string(index) + ": compute capability " + text(architecture) + ", but " + text(needed) +
         " or later is needed";
}

inline std::string busy_text(int index) {
  return "cuda:" + std::to_string(index) +
         ": the GPU is busy: another process has it to itself (exclusive mode), or it permits no computing; nvidia-smi "
         "shows both";
}

/// No memory for the driver's own state.
inline std::string full_text(int index) {
  return "cuda:" + std::to_string(index) +
         ": out of memory before the first tensor: other programs hold the memory of this GPU; nvidia-smi lists them";
}

inline std::string no_blas_text() {
  return "cuda: libcublasLt.so.13 was not found: install cuBLAS of the CUDA toolkit, or set CUDA_HOME or "
         "LD_LIBRARY_PATH";
}

inline std::string no_nccl_text() {
  return "libnccl.so.2 was not found: install NCCL, or set LD_LIBRARY_PATH to its folder";
}

struct MemoryUse {
  size_t requested = 0;
  size_t held = 0, cached = 0;  ///< by this program
  size_t free = 0, total = 0;   ///< of the device
};
inline std::string out_of_memory_text(int index, const MemoryUse& use) {
  return "cuda:" + std::to_string(index) + ": out of memory: " + readable(use.requested) + " requested, " +
         readable(use.held) + " held by tensors, " + readable(use.cached) + " cached, " + readable(use.free) + " of " +
         readable(use.total) + " free";
}

}  // namespace attend::cuda
