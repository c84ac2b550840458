#include "backend/cuda/devices.h"

namespace attend::cuda {
namespace {

struct Graph {
  cudaGraphExec_t exec = nullptr;
  size_t kernels = 0;
};

/// Ends the capture of the stream. Returns null if it has failed, and leaves no error behind.
cudaGraph_t stop_capture() noexcept {
  DeviceState& state = current();
  cudaGraph_t captured = nullptr;
  const cudaError_t status = cudaStreamEndCapture(state.stream, &captured);
  cudaGetLastError();
  state.is_capturing = false;
  state.memory.end_capture();
  return status == cudaSuccess ? captured : nullptr;
}

struct DestroyGraph {
  void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
};
using OwnedGraph = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, DestroyGraph>;

}  // namespace

void begin_capture() {
  DeviceState& state = current();
  require_no_capture("graph.begin");
  state.memory.begin_capture();
  // The relaxed mode permits cudaMalloc and the loading of kernels, which are not part of the graph.
  const cudaError_t status = cudaStreamBeginCapture(state.stream, cudaStreamCaptureModeRelaxed);
  if (status != cudaSuccess) state.memory.end_capture();
  check(status, "graph.begin");
  state.is_capturing = true;
}

void* end_capture() {
  const OwnedGraph captured(stop_capture());
  require<DeviceError>(captured != nullptr, "graph.end: the capture failed");
  auto graph = std::make_unique<Graph>();
  check(cudaGraphGetNodes(captured.get(), nullptr, &graph->kernels), "graph.end");
  check(cudaGraphInstantiate(&graph->exec, captured.get(), 0), "graph.end");
  current().memory.add_graph();
  return graph.release();
}

void abandon_capture() { const OwnedGraph captured(stop_capture()); }

void launch_graph(void* graph) {
  require_no_capture("graph.launch");
  check(cudaGraphLaunch(static_cast<Graph*>(graph)->exec, stream()), "graph.launch");
  counters().graph_launches.fetch_add(1, std::memory_order_relaxed);
}

void destroy_graph(void* graph) {
  const std::unique_ptr<Graph> owned(static_cast<Graph*>(graph));
  cudaStreamSynchronize(stream());  // it may still run
  cudaGraphExecDestroy(owned->exec);
  cudaGetLastError();
  current().memory.remove_graph();
}

size_t graph_kernels(const void* graph) { return static_cast<const Graph*>(graph)->kernels; }

}  // namespace attend::cuda
