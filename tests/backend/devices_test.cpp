// How the program finds and reaches GPUs, tested with the plug-in of tests/testing/pretend_cuda.cpp.
#include "attend/backend/devices.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "backend/plugin.h"
#include "backend/table_entries.h"
#include "testing/pretend_device.h"

namespace attend {
namespace {

using testing::kPretendPlugin;
using testing::missing_from;
using testing::pretend_device;

constexpr size_t kBytes = 4 * sizeof(float);

Device cuda(int index) { return {Device::Kind::cuda, index}; }

/// Memory of a device until the end of the scope.
class Block {
 public:
  Block(Device device, size_t bytes) : device_(device), bytes_(bytes), data_(kernels(device).memory.allocate(bytes)) {}
  ~Block() { kernels(device_).memory.release(data_, bytes_); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  float* data() const { return static_cast<float*>(data_); }
  Rows rows() const { return {data_, DType::f32, 1, 4, 4}; }

 private:
  Device device_;
  size_t bytes_;
  void* data_;
};

template <class F>
std::string error_of(F&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// The message of parse_device(name) in a new process that uses the given plug-in.
void print_error(const char* plugin, const char* name) {
  setenv("ATTEND_CUDA_PLUGIN", plugin, 1);
  const std::string message = error_of([&] { parse_device(name); });
  std::fprintf(stderr, "[%s]", message.c_str());
  std::exit(0);
}

class Devices : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { pretend_device(); }
};
class DevicesDeathTest : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }  // a new process, without a plug-in
};

TEST_F(Devices, AreListedWithTheCpuFirst) {
  const std::vector<DeviceInfo> all = devices();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].device, kCpu);
  EXPECT_GT(all[0].total_memory, all[0].free_memory);
  EXPECT_GT(all[0].free_memory, 0u);
  EXPECT_FALSE(all[0].name.empty());
  EXPECT_EQ(all[2].device, cuda(1));
  EXPECT_EQ(all[2].name, "Pretend GPU");
  EXPECT_EQ(all[2].architecture, 90);
  EXPECT_EQ(all[2].total_memory, size_t{4} << 30);
  EXPECT_EQ(cuda_devices(), 2);
  EXPECT_EQ(cuda_problem(), "");
}

TEST_F(Devices, NamesAreParsed) {
  EXPECT_EQ(parse_device("cpu"), kCpu);
  EXPECT_EQ(parse_device("auto"), cuda(0));
  EXPECT_EQ(parse_device("cuda"), cuda(0));
  EXPECT_EQ(parse_device("cuda:1"), cuda(1));
}

TEST_F(Devices, WrongNamesAreErrors) {
  for (const char* name : {"", "gpu", "cuda:", "cuda:x", "cuda:1x", "cuda:-1", "cuda1", "CPU", "cuda:99999999999"}) {
    EXPECT_THROW(parse_device(name), ShapeError);
    EXPECT_EQ(error_of([&] { parse_device(name); }),
              std::string("unknown device '") + name + "': expected auto, cpu, cuda or cuda:N");
  }
  EXPECT_EQ(error_of([] { parse_device("cuda:2"); }),
            "cuda:2: no such device, this machine has 2 GPUs, counted from cuda:0");
  EXPECT_EQ(error_of([] { kernels(cuda(7)); }), "cuda:7: no such device, this machine has 2 GPUs, counted from cuda:0");
  EXPECT_NO_THROW(kernels(cuda(0)));
}

TEST_F(Devices, EveryKernelIsThere) { EXPECT_EQ(missing_from(kernels(cuda(0))), std::vector<std::string>{}); }

TEST_F(Devices, UploadAndDownloadRoundTrip) {
  const float values[4] = {1, -2, 3.5f, 4};
  float back[4] = {};
  const Block block(cuda(1), kBytes);
  const MemoryKernels& memory = kernels(cuda(1)).memory;
  const DeviceCounters before = device_counters();
  memory.upload(block.data(), values, kBytes);
  memory.download(back, block.data(), kBytes);
  EXPECT_EQ(std::vector(back, back + 4), std::vector(values, values + 4));
  EXPECT_EQ(device_counters().synchronizations, before.synchronizations + 1);
  EXPECT_EQ(device_counters().launches, before.launches);
}

TEST_F(Devices, KernelsRunOnDeviceMemory) {
  const Block x(cuda(0), kBytes), y(cuda(0), kBytes);
  const Kernels& table = kernels(cuda(0));
  const DeviceCounters before = device_counters();
  table.elementwise.fill({x.data(), DType::f32, {4}, {1}}, -1.5);
  table.elementwise.unary(UnaryKind::relu, x.rows(), y.rows());
  float back[4] = {7, 7, 7, 7};
  table.memory.download(back, y.data(), kBytes);
  EXPECT_EQ(std::vector(back, back + 4), std::vector<float>(4, 0.0f));
  EXPECT_EQ(device_counters().launches, before.launches + 2);
}

TEST_F(Devices, HostPointersAreFound) {
  const Block x(cuda(0), kBytes);
  float host[4] = {};
  const Rows rows{host, DType::f32, 1, 4, 4};
  const Kernels& table = kernels(cuda(0));
  EXPECT_EQ(error_of([&] { table.elementwise.unary(UnaryKind::relu, x.rows(), rows); }),
            "elementwise.unary: a host pointer was passed to cuda:0");
  const MatmulOptions options{.bias = {host, DType::f32, {1}, {1}}};
  const View one{x.data(), DType::f32, {1, 1}, {1, 1}};
  EXPECT_EQ(error_of([&] { table.matmul.multiply(one, one, one, options); }),
            "matmul.multiply: a host pointer was passed to cuda:0");
  const ConstRows parts[] = {x.rows(), rows};
  EXPECT_EQ(error_of([&] {
              table.reduce.sum_of_squares(parts, {x.data(), DType::f64, 1, 1, 1});
            }),
            "reduce.sum_of_squares: a host pointer was passed to cuda:0");
  const AdamSlot slots[] = {{.grad = x.rows(), .param = x.rows(), .m = rows, .v = x.rows()}};
  EXPECT_EQ(error_of([&] { table.optim.adam(slots, {}, {}); }), "optim.adam: a host pointer was passed to cuda:0");
  EXPECT_EQ(error_of([&] { table.memory.upload(host, host, kBytes); }),
            "memory.upload: a host pointer was passed to cuda:0");
}

TEST_F(Devices, PointersOfAnotherDeviceAndPastTheEndAreFound) {
  const Block there(cuda(1), kBytes), here(cuda(0), 64);
  const Kernels& table = kernels(cuda(0));
  EXPECT_EQ(error_of([&] {
              table.elementwise.fill({there.data(), DType::f32, {4}, {1}}, 0);
            }),
            "elementwise.fill: 16 bytes are not all in one block of cuda:0, the first is in a block of cuda:1");
  EXPECT_EQ(error_of([&] {
              table.elementwise.fill({here.data(), DType::f32, {17}, {1}}, 0);
            }),
            "elementwise.fill: 68 bytes are not all in one block of cuda:0, the first is in a block of cuda:0");
}

TEST_F(Devices, EachThreadSelectsItsDevice) {
  const Block first(cuda(0), kBytes), second(cuda(1), kBytes);
  const auto fill = [](const Block& block, Device device) {
    for (int i = 0; i < 1000; ++i) kernels(device).elementwise.fill({block.data(), DType::f32, {4}, {1}}, i);
  };
  std::thread other([&] { fill(second, cuda(1)); });
  fill(first, cuda(0));
  other.join();
  float back[4] = {};
  kernels(cuda(1)).memory.download(back, second.data(), kBytes);
  EXPECT_EQ(back[3], 999.0f);
}

TEST_F(Devices, MemoryIsCountedAndLimited) {
  const MemoryKernels& memory = kernels(cuda(0)).memory;
  const size_t before = memory.live_bytes();
  {
    const Block block(cuda(0), 1000);
    EXPECT_EQ(memory.live_bytes(), before + 1024);
  }
  EXPECT_EQ(memory.live_bytes(), before);
  EXPECT_NE(error_of([&] { memory.allocate(size_t{5} << 30); }).find("cuda:0: out of memory: "), std::string::npos);
}

TEST_F(DevicesDeathTest, AMissingPluginIsNamed) {
  EXPECT_EXIT(print_error("/nowhere/libattend-cuda.so", "cuda"), ::testing::ExitedWithCode(0),
              "\\[cuda: ATTEND_CUDA_PLUGIN: /nowhere/libattend-cuda.so: cannot open shared object file");
  EXPECT_EXIT(print_error("/nowhere/libattend-cuda.so", "auto"), ::testing::ExitedWithCode(0), "\\[\\]");
  EXPECT_EXIT(print_error("/nowhere/libattend-cuda.so", "cpu"), ::testing::ExitedWithCode(0), "\\[\\]");
}

TEST_F(DevicesDeathTest, ALibraryThatIsNoPluginIsRejected) {
  EXPECT_EXIT(print_error("libm.so.6", "cuda:0"), ::testing::ExitedWithCode(0),
              "\\[cuda: .*libm.so.6 is not a plug-in of attend\\]");
}

TEST_F(Devices, APluginOfAnotherVersionIsRejected) {
  void* library = dlopen(kPretendPlugin, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  auto* entry = reinterpret_cast<PluginEntry*>(dlsym(library, kPluginEntry));
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry(kPluginVersion + 1, nullptr), nullptr);
}

/// The real plug-in can be opened without a GPU, if it was built.
TEST(CudaPlugin, HasEveryKernel) {
  const std::string file = ATTEND_BINARY_DIR "/libattend-cuda.so";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "the CUDA plug-in is not built";
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  auto* entry = reinterpret_cast<PluginEntry*>(dlsym(library, kPluginEntry));
  ASSERT_NE(entry, nullptr);
  static const PluginHost host{.cpu = &kernels(kCpu)};
  const Plugin* plugin = entry(kPluginVersion, &host);
  ASSERT_NE(plugin, nullptr);
  EXPECT_EQ(missing_from(plugin->table()), std::vector<std::string>{});
}

}  // namespace
}  // namespace attend
