#pragma once

#include <cstdlib>

#include "attend/base/device.h"

namespace attend::testing {

inline constexpr const char* kPretendPlugin = ATTEND_BINARY_DIR "/tests/libattend-pretend-cuda.so";

/// The devices of tests/testing/pretend_cuda.cpp, in place of the GPUs of this machine. Must be called before anything
/// else in the process uses a GPU.
inline Device pretend_device(int index = 0) {
  setenv("ATTEND_CUDA_PLUGIN", kPretendPlugin, 1);
  return {Device::Kind::cuda, index};
}

}  // namespace attend::testing
