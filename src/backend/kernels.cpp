#include "backend/kernels.h"

#include "backend/cpu/cpu.h"
#include "backend/devices.h"

namespace attend {
namespace {

/// The GPU that this thread selected last.
struct Selected {
  int index = -1;
  const Kernels* table = nullptr;
};
thread_local constinit Selected selected;

}  // namespace

const Kernels& kernels(Device device) {
  if (device.kind == Device::Kind::cpu) return cpu::table();
  if (device.index != selected.index || selected.table == nullptr) [[unlikely]] {
    selected.table = nullptr;  // in case that selecting throws
    selected.table = &select_cuda(device.index);
    selected.index = device.index;
  }
  return *selected.table;
}

}  // namespace attend
