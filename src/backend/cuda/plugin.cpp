#include "backend/plugin.h"

#include "backend/cuda/devices.h"

namespace attend::cuda {
namespace {

PluginCounters counts() {
  return {.launches = counters().launches.load(std::memory_order_relaxed),
          .graph_launches = counters().graph_launches.load(std::memory_order_relaxed),
          .synchronizations = counters().synchronizations.load(std::memory_order_relaxed)};
}

const Plugin kPlugin{.open = open_devices,
                     .describe = describe_device,
                     .select = select_device,
                     .table = table,
                     .counters = counts,
                     .graphs = {.begin = begin_capture,
                                .end = end_capture,
                                .abandon = abandon_capture,
                                .launch = launch_graph,
                                .destroy = destroy_graph,
                                .kernels = graph_kernels},
                     .messages = kMessages};

}  // namespace
}  // namespace attend::cuda

extern "C" [[gnu::visibility("default")]] const attend::Plugin* attend_backend(int version,
                                                                               const attend::PluginHost* host) {
  if (version != attend::kPluginVersion) return nullptr;
  attend::cuda::set_host(host);
  return &attend::cuda::kPlugin;
}
