#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "attend/base/device.h"

namespace attend {

/// Device memory whose bytes go to a process, or come from one.
struct DeviceMessage {
  int rank = 0;
  void* data = nullptr;
  size_t bytes = 0;
};

/// A connection between GPUs of several processes, one of each. Messages go from device memory to device memory.
///
/// Transfers run in the background, in order with the device's kernels: start_…() sends what earlier calls of kernels
/// write, and calls after finish() read what has arrived. The host does not wait for the device. All processes start
/// the same transfers in the same order. Memory of a transfer must not be written or freed before finish().
class DeviceConnection {
 public:
  /// Why the device cannot send messages, in one line; empty if it can.
  static std::string problem(Device device);
  /// The library that moves the messages, with its version.
  static std::string library(Device device);
  /// A name that no other device of the host has.
  static std::string address(Device device);
  /// What the processes of a new connection need: one of them makes it and hands it to the others.
  static std::string invitation(Device device);

  /// Waits until all `size` processes have called it. Each has a device of its own.
  DeviceConnection(Device device, const std::string& invitation, int rank, int size);
  ~DeviceConnection();
  DeviceConnection(const DeviceConnection&) = delete;
  DeviceConnection& operator=(const DeviceConnection&) = delete;

  /// Every message that is sent has one of the same size that is received, also those to the own rank.
  void* start_exchange(std::span<const DeviceMessage> sent, std::span<const DeviceMessage> received);
  /// Replaces the values by their sums over all ranks. All ranks get the same bits.
  void* start_sum(std::span<float> values);
  void finish(void* transfer);

 private:
  Device device_;
  void* connection_;
};

}  // namespace attend
