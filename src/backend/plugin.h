#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "backend/connection.h"
#include "backend/kernels.h"

// The interface between the program and a plug-in: a shared library that implements the kernels of the devices
// cuda:0, cuda:1, …. The plug-in exports one C function, attend_backend(). Both are built by the same compiler from the
// same sources, so C++ types and the exceptions of attend/base/error.h cross the interface.
namespace attend {

/// Changes with every change of this file, of backend/kernels.h, or of a type that they use.
inline constexpr int kPluginVersion = 7;

/// What the program provides to a plug-in.
struct PluginHost {
  const Kernels* cpu = nullptr;  ///< the kernels of the CPU
};

struct PluginDevice {
  std::string name;
  size_t total_memory = 0, free_memory = 0;  ///< bytes
  int architecture = 0;                      ///< compute capability: 90 for 9.0
  std::string driver;                        ///< driver version
  std::string problem{};                     ///< why the device cannot be used now, in one line; empty if it can
};

/// Counts since the start of the program.
struct PluginCounters {
  uint64_t launches = 0;          ///< kernels that were launched one by one
  uint64_t graph_launches = 0;    ///< launched graphs
  uint64_t synchronizations = 0;  ///< times that the host waited for a device
};

/// Graphs of the current device of the calling thread: see backend/graph.h. All null if the device has no graphs.
struct PluginGraphs {
  void (*begin)() = nullptr;    ///< starts a capture: the kernels that this thread calls are recorded, not run
  void* (*end)() = nullptr;     ///< ends the capture and returns the graph; if it throws, the capture has ended too
  void (*abandon)() = nullptr;  ///< ends the capture without a graph; never throws
  void (*launch)(void* graph) = nullptr;
  void (*destroy)(void* graph) = nullptr;          ///< never throws
  size_t (*kernels)(const void* graph) = nullptr;  ///< number of recorded kernels and copies
};

/// Messages between the GPUs of several processes: see backend/connection.h. Except for `problem`, the functions work
/// on the current device of the calling thread.
struct PluginMessages {
  std::string (*problem)() = nullptr;     ///< why there are none, in one line; empty if there are
  std::string (*name)() = nullptr;        ///< of the library that moves them, with its version
  std::string (*address)() = nullptr;     ///< of the device: no other device of the host has it
  std::string (*invitation)() = nullptr;  ///< to a new connection; any bytes
  void* (*connect)(const std::string& invitation, int rank, int size) = nullptr;
  void (*disconnect)(void* connection) = nullptr;  ///< never throws
  void* (*exchange)(void* connection, std::span<const DeviceMessage> sent,
                    std::span<const DeviceMessage> received) = nullptr;  ///< returns a transfer for finish()
  void* (*sum)(void* connection, float* values, size_t count) = nullptr;
  void (*finish)(void* transfer) = nullptr;
};

struct Plugin {
  /// The number of devices, at least 1. Throws DeviceError, in one line, if none can be used: no driver, a driver that
  /// is too old, no device, or a missing library.
  int (*open)() = nullptr;
  PluginDevice (*describe)(int index) = nullptr;
  void (*select)(int index) = nullptr;  ///< makes the device the current one of the calling thread
  const Kernels& (*table)() = nullptr;  ///< the kernels; they run on the current device of the calling thread
  PluginCounters (*counters)() = nullptr;
  PluginGraphs graphs;
  PluginMessages messages;
};

/// The type of attend_backend. Returns null if the plug-in implements another version of this interface. `host` must
/// outlive the plug-in.
using PluginEntry = const Plugin*(int version, const PluginHost* host);
inline constexpr const char* kPluginEntry = "attend_backend";

}  // namespace attend
