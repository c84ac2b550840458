#pragma once

#include <memory>
#include <string>

#include "attend/base/device.h"
#include "distributed/group.h"

namespace attend::distributed {

/// A group whose messages are in the memory of a device.
struct DeviceGroup {
  std::unique_ptr<Group> group;
  std::string path;        ///< how messages travel: "by NCCL 2.28.9"
  bool is_direct = false;  ///< messages do not pass through the host's memory
};

/// The members of `group` as a group whose messages are in the memory of `device`; each member names its own.
/// Collective.
///
/// If every member has a GPU of its own and its library for messages between GPUs (NCCL), messages go directly from
/// device to device: start_…() sends what earlier calls of kernels write, and calls after wait() read what has arrived;
/// the host does not wait for the device. Otherwise the host copies messages through its own memory.
/// On the CPU it is a channel of `group`.
DeviceGroup device_group(Group& group, Device device);

}  // namespace attend::distributed
