#pragma once

#include "distributed/group.h"

// The interface between the program and libattend-mpi.so. Both are built by the same compiler from the same sources, so
// C++ types and the exceptions of attend/base/error.h cross it.
namespace attend::distributed {

/// Changes with every change of this file or of distributed/group.h.
inline constexpr int kPluginVersion = 1;

struct Plugin {
  /// Connects the processes of the job. Called once. The group lives until close().
  Group& (*open)() = nullptr;
  void (*close)() = nullptr;
};

/// The type of attend_mpi. Returns null if the plug-in implements another version of this interface.
using PluginEntry = const Plugin*(int version);
inline constexpr const char* kPluginEntry = "attend_mpi";

}  // namespace attend::distributed
