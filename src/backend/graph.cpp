#include "backend/graph.h"

#include <cstdlib>
#include <string_view>

#include "backend/devices.h"

namespace attend {
namespace {

thread_local int captured_gpu = -1;  // the GPU that this thread is capturing; −1: none

/// The functions for graphs of a device, which becomes the current one of this thread.
const PluginGraphs& graphs_of(Device device) {
  attend::kernels(device);
  return cuda_graphs(device.index);
}

}  // namespace

bool has_graphs(Device device) {
  if (device == kCpu || cuda_graphs(device.index).begin == nullptr) return false;
  const char* setting = std::getenv("ATTEND_GRAPHS");
  return setting == nullptr || std::string_view(setting) != "off";
}

bool is_capturing(Device device) { return device != kCpu && captured_gpu == device.index; }

DeviceGraph DeviceGraph::capture(Device device, const std::function<void()>& work) {
  require<DeviceError>(has_graphs(device), "capture: ", device, " has no graphs");
  require<DeviceError>(captured_gpu < 0, "capture: this thread is already capturing a graph");
  const PluginGraphs& graphs = graphs_of(device);
  graphs.begin();
  captured_gpu = device.index;
  DeviceGraph result;
  result.device_ = device;
  try {
    work();
    captured_gpu = -1;
  } catch (...) {
    captured_gpu = -1;
    graphs_of(device).abandon();
    throw;
  }
  result.graph_ = graphs_of(device).end();
  return result;
}

void DeviceGraph::launch() const {
  require<DeviceError>(graph_ != nullptr, "launch: the graph is empty");
  graphs_of(device_).launch(graph_);
}

size_t DeviceGraph::kernels() const { return graph_ == nullptr ? 0 : cuda_graphs(device_.index).kernels(graph_); }

DeviceGraph::~DeviceGraph() {
  if (graph_ != nullptr) graphs_of(device_).destroy(graph_);
}

}  // namespace attend
