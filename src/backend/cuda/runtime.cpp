#include "backend/cuda/runtime.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <vector>

#include "attend/base/error.h"
#include "backend/cuda/cuda.h"
#include "backend/cuda/devices.h"
#include "backend/cuda/messages.h"

namespace attend::cuda {
namespace {

/// The state of all devices, made when a device is first selected. Never destroyed: tensors with static lifetime may be
/// released after the destructors of this library's statics.
struct Devices {
  std::mutex mutex;
  std::vector<std::unique_ptr<DeviceState>> states;
};
Devices& devices() {
  static Devices* instance = new Devices;
  return *instance;
}

constexpr int kOldestArchitecture = 80;

constinit thread_local DeviceState* selected = nullptr;
const PluginHost* host = nullptr;

int driver_version() {
  int version = 0;
  cudaDriverGetVersion(&version);
  return version;
}

int runtime_version() {
  int version = 0;
  cudaRuntimeGetVersion(&version);
  return version;
}

bool waits_after_launches() {
  static const bool waits = std::getenv("ATTEND_CUDA_CHECK") != nullptr;
  return waits;
}

int attribute(cudaDeviceAttr which, int index) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, index), "cuda: reading the properties of a device");
  return value;
}

int architecture_of(int index) {
  return 10 * attribute(cudaDevAttrComputeCapabilityMajor, index) + attribute(cudaDevAttrComputeCapabilityMinor, index);
}

/// The status of a call that may be the first one to use the device.
bool is_busy(cudaError_t status) {
  return status == cudaErrorDevicesUnavailable || status == cudaErrorDeviceAlreadyInUse;
}

void check_available(cudaError_t status, int index, const char* what) {
  if (status != cudaSuccess) cudaGetLastError();
  require<DeviceError>(!is_busy(status), busy_text(index));
  require<DeviceError>(status != cudaErrorMemoryAllocation, full_text(index));
  check(status, what);
}

/// Why the device cannot be used; empty if it can.
std::string problem_of(int index, cudaError_t first_use) {
  const int architecture = architecture_of(index);
  if (architecture < kOldestArchitecture) return old_gpu_text(index, architecture, kOldestArchitecture);
  if (first_use == cudaSuccess) return "";
  if (first_use == cudaErrorMemoryAllocation) return full_text(index);
  return is_busy(first_use) ? busy_text(index) : cudaGetErrorString(first_use);
}

std::unique_ptr<DeviceState> new_state(int index) {
  auto state = std::make_unique<DeviceState>();
  state->index = index;
  state->multiprocessors = attribute(cudaDevAttrMultiProcessorCount, index);
  state->architecture = architecture_of(index);
  require<DeviceError>(state->architecture >= kOldestArchitecture,
                       old_gpu_text(index, state->architecture, kOldestArchitecture));
  check_available(cudaStreamCreateWithFlags(&state->stream, cudaStreamNonBlocking), index, "cuda: creating a stream");
  return state;
}

}  // namespace

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) [[likely]]
    return;
  const char* text = cudaGetErrorString(status);
  cudaGetLastError();
  if (status == cudaErrorMemoryAllocation) throw_error<DeviceError>(what, ": out of GPU memory");
  throw_error<DeviceError>(what, ": ", text);
}

void check_launch(const char* kernel) {
  check(cudaGetLastError(), kernel);
  if (current().is_capturing) return;
  counters().launches.fetch_add(1, std::memory_order_relaxed);
  if (waits_after_launches()) check(cudaStreamSynchronize(stream()), kernel);
}

void require_no_capture(const char* what) {
  require<DeviceError>(!current().is_capturing, what, ": not possible while a graph is captured");
}

void wait_for_stream(const char* what) {
  require_no_capture(what);
  counters().synchronizations.fetch_add(1, std::memory_order_relaxed);
  check(cudaStreamSynchronize(stream()), what);
}

void synchronize() { wait_for_stream("memory.synchronize"); }

DeviceState& current() {
  require<DeviceError>(selected != nullptr, "cuda: no device was selected");
  return *selected;
}

cudaStream_t stream() { return current().stream; }
int device_index() { return current().index; }
int multiprocessors() { return current().multiprocessors; }
int architecture() { return current().architecture; }

Counters& counters() {
  static Counters instance;
  return instance;
}

void set_host(const PluginHost* given) { host = given; }
const Kernels& host_kernels() { return *host->cpu; }

int open_devices() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorInsufficientDriver) {
    cudaGetLastError();
    require<DeviceError>(driver_version() > 0, no_driver_text());
    throw_error<DeviceError>(old_driver_text(driver_version(), runtime_version()));
  }
  require<DeviceError>(status != cudaErrorNoDevice && (status != cudaSuccess || count > 0), no_gpu_text());
  check(status, "cuda");
  int newest = 0;
  for (int index = 0; index < count; ++index) newest = std::max(newest, architecture_of(index));
  require<DeviceError>(newest >= kOldestArchitecture, old_gpu_text(0, newest, kOldestArchitecture));
  open_blas();
  devices().states.resize(static_cast<size_t>(count));
  return count;
}

void select_device(int index) {
  check_available(cudaSetDevice(index), index, "cuda: selecting a device");
  std::lock_guard lock(devices().mutex);
  std::unique_ptr<DeviceState>& state = devices().states[static_cast<size_t>(index)];
  if (state == nullptr) state = new_state(index);
  selected = state.get();
}

PluginDevice describe_device(int index) {
  int before = 0;
  check(cudaGetDevice(&before), "cuda");
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index), "cuda: reading the properties of a device");
  PluginDevice device{
      .name = properties.name, .total_memory = properties.totalGlobalMem, .architecture = architecture_of(index)};
  cudaError_t status = cudaSetDevice(index);
  if (status == cudaSuccess) status = cudaMemGetInfo(&device.free_memory, &device.total_memory);
  device.problem = problem_of(index, status);
  cudaSetDevice(before);
  cudaGetLastError();
  std::ifstream in("/sys/module/nvidia/version");
  std::string number;
  in >> number;
  device.driver = (number.empty() ? "" : number + " ") + "(CUDA " + version_text(driver_version()) + ")";
  return device;
}

}  // namespace attend::cuda
