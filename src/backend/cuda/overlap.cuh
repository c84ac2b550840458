#pragma once

#include "backend/cuda/runtime.h"

// Kernels that start while the kernel before them still runs (programmatic dependent launch, sm_90 and later), so that
// the launch and the first loads of one overlap with the end of the other. Older devices start them one by one.
namespace attend::cuda {

/// Permits the next kernel to start, if it was launched by launch_overlapped().
__device__ __forceinline__ void let_next_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// Waits until all earlier kernels have finished. In a kernel that launch_overlapped() starts, every thread calls it:
/// before it reads what an earlier kernel may have written, and before it writes. Later reads must not use __ldg,
/// which the compiler may move across this call.
__device__ __forceinline__ void wait_for_earlier() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Asks for the line at an address, so that later loads find it in L2. Reads nothing.
__device__ __forceinline__ void prefetch_line(const void* at) { asm volatile("prefetch.global.L2 [%0];" ::"l"(at)); }

struct LaunchShape {
  dim3 grid;
  int threads = 0;
  size_t shared = 0;     ///< bytes of dynamic shared memory
  bool overlaps = true;  ///< false: the kernel starts after all earlier ones
  int cluster = 1;       ///< CTAs of a cluster along x; more than 1 from sm_90 on
};

/// Whether a kernel was compiled for sm_90 or later, and so contains the instructions above. From the PTX of an older
/// architecture, a driver makes code for sm_90 without them.
template <class... Parameters>
bool has_overlap(void (*kernel)(Parameters...)) {
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, kernel), "cuda: cudaFuncGetAttributes");
  return attributes.ptxVersion >= 90;
}

template <class... Parameters, class... Args>
void launch_overlapped(const char* name, void (*kernel)(Parameters...), const LaunchShape& shape, const Args&... args) {
  cudaLaunchAttribute attributes[2]{};
  unsigned count = 0;
  static const bool may_overlap = has_overlap(kernel);  // all kernels of a file are compiled alike
  if (shape.overlaps && may_overlap && architecture() >= 90) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (shape.cluster > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count++].val.clusterDim = {static_cast<unsigned>(shape.cluster), 1, 1};
  }
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes = shape.shared;
  config.stream = stream();
  config.attrs = attributes;
  config.numAttrs = count;
  check(cudaLaunchKernelEx(&config, kernel, args...), name);
  check_launch(name);
}

}  // namespace attend::cuda
