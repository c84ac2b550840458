#include "backend/plugin.h"

#include "backend/cuda/devices.h"

namespace attend::cuda {
namespace {

PluginCounters counts() {
  return {.launches = counters().launches.load(std::memory_order_relaxed),
          .synchronizations = counters().synchronizations.load(std::memory_order_relaxed)};
}

constexpr Plugin kPlugin{
    .open = open_devices, .describe = describe_device, .select = select_device, .table = table, .counters = counts};

}  // namespace
}  // namespace attend::cuda

extern "C" [[gnu::visibility("default")]] const attend::Plugin* attend_backend(int version,
                                                                               const attend::PluginHost* host) {
  if (version != attend::kPluginVersion) return nullptr;
  attend::cuda::set_host(host);
  return &attend::cuda::kPlugin;
}
