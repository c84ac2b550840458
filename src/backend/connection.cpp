#include "backend/connection.h"

#include "backend/devices.h"

namespace attend {
namespace {

/// The functions for messages of a device, which becomes the current one of this thread.
const PluginMessages& messages_of(Device device) {
  kernels(device);
  return cuda_messages(device.index);
}

}  // namespace

std::string DeviceConnection::problem(Device device) {
  if (device == kCpu) return "the CPU has no messages of its own";
  const PluginMessages& messages = cuda_messages(device.index);
  return messages.problem == nullptr ? "this device has no messages of its own" : messages.problem();
}

std::string DeviceConnection::library(Device device) { return messages_of(device).name(); }
std::string DeviceConnection::address(Device device) { return messages_of(device).address(); }
std::string DeviceConnection::invitation(Device device) { return messages_of(device).invitation(); }

DeviceConnection::DeviceConnection(Device device, const std::string& invitation, int rank, int size)
    : device_(device), connection_(messages_of(device).connect(invitation, rank, size)) {}

DeviceConnection::~DeviceConnection() { messages_of(device_).disconnect(connection_); }

void* DeviceConnection::start_exchange(std::span<const DeviceMessage> sent, std::span<const DeviceMessage> received) {
  return messages_of(device_).exchange(connection_, sent, received);
}

void* DeviceConnection::start_sum(std::span<float> values) {
  return messages_of(device_).sum(connection_, values.data(), values.size());
}

void DeviceConnection::finish(void* transfer) { messages_of(device_).finish(transfer); }

}  // namespace attend
