#pragma once

#include "attend/tensor/creation.h"
#include "testing/pretend_device.h"

namespace attend::testing {

/// A device that computes on 16-bit floats: the GPU that ATTEND_TEST_DEVICE names, else the pretend one.
inline Device half_device() { return default_device() != kCpu ? default_device() : pretend_device(); }

}  // namespace attend::testing
