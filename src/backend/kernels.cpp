#include "backend/kernels.h"

#include "backend/cpu/cpu.h"

namespace attend {

const Kernels& kernels(Device device) {
  require<DeviceError>(device.kind == Device::Kind::cpu, "device ", device, ": this build runs on the CPU only");
  return cpu::table();
}

}  // namespace attend
