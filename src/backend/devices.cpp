#include "backend/devices.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "attend/backend/devices.h"
#include "backend/cpu/cpu.h"
#include "backend/plugin.h"
#include "base/plugin_file.h"

namespace attend {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPluginFile = "libattend-cuda.so";
constexpr const char* kPluginVariable = "ATTEND_CUDA_PLUGIN";

/// The opened plug-in, or the reason why there is none.
struct Cuda {
  const Plugin* plugin = nullptr;
  int devices = 0;
  std::string problem;
};

/// The plug-in, once something has opened it.
std::atomic<const Plugin*> used_plugin{nullptr};

bool is_plugin_named() {
  const char* file = std::getenv(kPluginVariable);
  return file != nullptr && *file != '\0';
}

void* open_plugin_library() {
  if (is_plugin_named()) {
    void* library = open_library(std::getenv(kPluginVariable));
    require<DeviceError>(library != nullptr, "cuda: ", kPluginVariable, ": ", library == nullptr ? dlerror() : "");
    return library;
  }
  require<DeviceError>(open_library("libcuda.so.1") != nullptr,
                       "cuda: no NVIDIA driver is installed (libcuda.so.1 was not found)");
  std::string tried;
  for (const std::string& place : plugin_places(kPluginFile)) {
    const bool is_file = place.find('/') != std::string::npos;
    tried += (tried.empty() ? "" : ", ") + (is_file ? fs::path(place).parent_path().string() : "the library path");
    std::error_code ignored;
    if (is_file && !fs::exists(place, ignored)) continue;
    if (void* library = open_library(place)) return library;
    const std::string reason = dlerror();
    require<DeviceError>(!is_file, "cuda: cannot open the plug-in: ", reason);
  }
  throw_error<DeviceError>("cuda: the plug-in ", kPluginFile, " was not found in ", tried, "; set ", kPluginVariable,
                           " to its file");
}

/// The file of an opened library.
std::string file_of(void* library) {
  const link_map* map = nullptr;
  return dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr ? map->l_name : kPluginFile;
}

Cuda open_cuda() {
  Cuda cuda;
  try {
    static const PluginHost host{.cpu = &cpu::table()};
    void* library = open_plugin_library();
    auto* entry = reinterpret_cast<PluginEntry*>(dlsym(library, kPluginEntry));
    const Plugin* plugin = entry != nullptr ? entry(kPluginVersion, &host) : nullptr;
    require<DeviceError>(entry != nullptr, "cuda: ", file_of(library), " is not a plug-in of attend");
    require<DeviceError>(plugin != nullptr, "cuda: the plug-in ", file_of(library),
                         " belongs to another version of attend: this one needs the plug-in that was built with it");
    cuda.devices = plugin->open();
    cuda.plugin = plugin;
    used_plugin = plugin;
  } catch (const std::exception& error) {
    cuda.problem = error.what();
  }
  return cuda;
}

/// Opened at the first use. Never destroyed: tensors with static lifetime may be released later.
const Cuda& cuda() {
  static const Cuda& opened = *new Cuda(open_cuda());
  return opened;
}

const Plugin& plugin_with(int index) {
  const Cuda& opened = cuda();
  require<DeviceError>(opened.plugin != nullptr, opened.problem);
  require<DeviceError>(index >= 0 && index < opened.devices, "cuda:", index, ": no such device, this machine has ",
                       opened.devices, opened.devices == 1 ? " GPU (cuda:0)" : " GPUs, counted from cuda:0");
  return *opened.plugin;
}

std::string cpu_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    const size_t value = line.find(": ");
    if (line.starts_with("model name") && value != std::string::npos) return line.substr(value + 2);
  }
  return "CPU";
}

DeviceInfo cpu_info() {
  const auto bytes_of = [](int pages) {
    return static_cast<size_t>(sysconf(pages)) * static_cast<size_t>(getpagesize());
  };
  DeviceInfo info{
      .name = cpu_name(), .total_memory = bytes_of(_SC_PHYS_PAGES), .free_memory = bytes_of(_SC_AVPHYS_PAGES)};
  std::ifstream in("/proc/meminfo");  // counts cached files as available, which sysconf does not
  for (std::string key, rest; in >> key; std::getline(in, rest)) {
    size_t kilobytes = 0;
    if (key == "MemAvailable:" && in >> kilobytes) info.free_memory = kilobytes * 1024;
  }
  return info;
}

DeviceInfo cuda_info(int index) {
  PluginDevice found = plugin_with(index).describe(index);
  return {.device = {Device::Kind::cuda, index},
          .name = std::move(found.name),
          .total_memory = found.total_memory,
          .free_memory = found.free_memory,
          .architecture = found.architecture,
          .driver = std::move(found.driver),
          .problem = std::move(found.problem)};
}

/// Whether the NVIDIA driver finds a GPU or fails; false without a driver. Calls the driver directly, as the plug-in
/// may be what is missing.
bool driver_finds_gpu() {
  constexpr int kStubLibrary = 34, kNoDevice = 100;  // CUDA_ERROR_STUB_LIBRARY, CUDA_ERROR_NO_DEVICE
  void* library = open_library("libcuda.so.1");
  if (library == nullptr) return false;
  auto* init = reinterpret_cast<int (*)(unsigned)>(dlsym(library, "cuInit"));
  auto* count = reinterpret_cast<int (*)(int*)>(dlsym(library, "cuDeviceGetCount"));
  if (init == nullptr || count == nullptr) return false;
  int gpus = 0;
  int status = init(0);
  if (status == 0) status = count(&gpus);
  return status == 0 ? gpus > 0 : status != kStubLibrary && status != kNoDevice;
}

}  // namespace

const Kernels& select_cuda(int index) {
  const Plugin& plugin = plugin_with(index);
  plugin.select(index);
  return plugin.table();
}

const PluginGraphs& cuda_graphs(int index) { return plugin_with(index).graphs; }

const PluginMessages& cuda_messages(int index) { return plugin_with(index).messages; }

int cuda_devices() { return cuda().devices; }

std::string cuda_problem() { return cuda().problem; }

std::string cuda_fault() {
  if (cuda().problem.empty()) return "";
  return is_plugin_named() || driver_finds_gpu() ? cuda().problem : "";
}

DeviceInfo device_info(Device device) { return device == kCpu ? cpu_info() : cuda_info(device.index); }

std::vector<DeviceInfo> devices() {
  std::vector<DeviceInfo> all{cpu_info()};
  for (int index = 0; index < cuda_devices(); ++index) all.push_back(cuda_info(index));
  return all;
}

Device parse_device(std::string_view name) {
  if (name == "cpu") return kCpu;
  if (name == "auto") return cuda_devices() > 0 ? Device{Device::Kind::cuda, 0} : kCpu;
  Device device{Device::Kind::cuda, 0};
  if (name != "cuda") {
    const std::string_view number = name.starts_with("cuda:") ? name.substr(5) : "";
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), device.index);
    require<ShapeError>(
        !number.empty() && error == std::errc() && end == number.data() + number.size() && device.index >= 0,
        "unknown device '", name, "': expected auto, cpu, cuda or cuda:N");
  }
  plugin_with(device.index);
  return device;
}

DeviceCounters device_counters() {
  const Plugin* plugin = used_plugin.load();
  if (plugin == nullptr) return {};
  const PluginCounters counters = plugin->counters();
  return {.launches = counters.launches,
          .graph_launches = counters.graph_launches,
          .synchronizations = counters.synchronizations};
}

}  // namespace attend
