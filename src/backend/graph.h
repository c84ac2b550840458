#pragma once

#include <functional>
#include <utility>

#include "attend/base/device.h"

namespace attend {

/// Whether kernels of the device can be captured in a DeviceGraph. False if the environment variable ATTEND_GRAPHS is
/// `off`.
bool has_graphs(Device device);

/// Whether the calling thread is inside DeviceGraph::capture() for this device.
bool is_capturing(Device device);

/// Kernels of a GPU that were recorded once and are launched together, as often as wanted.
///
/// A launch runs the recorded kernels with the recorded arguments: the same addresses, shapes and numbers. What changes
/// from launch to launch must therefore be in device memory that was allocated before the capture and stays allocated.
///
/// All tensors that are created during captures share one region of device memory: the launches of a device run one
/// after the other, so one graph may overwrite what another has left there. A result that is used after the next launch
/// of any graph of the device must be copied, by the graph itself, to a tensor that was created before the capture.
///
/// Not thread-safe: no other thread may call kernels of the device during a capture.
class DeviceGraph {
 public:
  DeviceGraph() = default;  ///< empty; test with `if (graph)`
  ~DeviceGraph();
  DeviceGraph(DeviceGraph&& other) noexcept : device_(other.device_), graph_(std::exchange(other.graph_, nullptr)) {}
  DeviceGraph& operator=(DeviceGraph&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(graph_, other.graph_);
    return *this;
  }

  /// Calls `work` and records its kernels without running them. Copies between host and device and waiting for the
  /// device throw DeviceError inside `work`. Run the same work once without a capture before: tables that it keeps,
  /// such as copies of host tensors on the device, must exist. If `work` throws or the capture fails, the exception
  /// passes on; the device can be used as before.
  static DeviceGraph capture(Device device, const std::function<void()>& work);

  void launch() const;  ///< returns before the kernels have run
  size_t kernels() const;
  explicit operator bool() const { return graph_ != nullptr; }

 private:
  Device device_;
  void* graph_ = nullptr;
};

}  // namespace attend
