#pragma once

#include <ostream>

namespace attend {

/// Where a tensor's memory lives and its kernels run. Prints as `cpu` or `cuda:0`.
struct Device {
  enum class Kind { cpu, cuda };
  Kind kind = Kind::cpu;
  int index = 0;

  friend bool operator==(Device, Device) = default;
  friend std::ostream& operator<<(std::ostream& out, Device device) {
    return device.kind == Kind::cpu ? out << "cpu" : out << "cuda:" << device.index;
  }
};

inline constexpr Device kCpu{};

}  // namespace attend
