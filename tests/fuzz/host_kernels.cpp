// Just enough of a device for parsers: memory. The real table would pull every kernel into an instrumented build.
#include <cstring>

#include "backend/cpu/memory.h"
#include "backend/kernels.h"

namespace attend {
namespace {

void copy_bytes(void* to, const void* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

constexpr Kernels kTable{.memory = {.allocate = cpu::allocate,
                                    .release = cpu::release,
                                    .upload = copy_bytes,
                                    .download = copy_bytes,
                                    .live_bytes = cpu::live_bytes,
                                    .peak_bytes = cpu::peak_bytes,
                                    .reset_peak = cpu::reset_peak}};

}  // namespace

const Kernels& kernels(Device) { return kTable; }

}  // namespace attend
