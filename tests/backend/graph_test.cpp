// Captured graphs, on a GPU if ATTEND_TEST_DEVICE names one, else on the pretend GPU.
#include "backend/graph.h"

#include <gtest/gtest.h>

#include "attend/backend/devices.h"
#include "attend/ops/arithmetic.h"
#include "attend/tensor/creation.h"
#include "testing/pretend_device.h"

namespace attend {
namespace {

Device test_device() { return default_device() != kCpu ? default_device() : testing::pretend_device(); }

Tensor on_gpu(const std::vector<float>& values) {
  return from_span<float>(values, {std::ssize(values)}, test_device());
}

TEST(DeviceGraph, RunsAgainOnNewData) {
  const Device device = test_device();
  const Tensor x = on_gpu({1, 2, 3}), y = on_gpu({0, 0, 0});
  const auto work = [&] { copy_values((x + x) * x, y); };
  work();
  EXPECT_EQ(y.to_vector(), (std::vector<float>{2, 8, 18}));
  const DeviceGraph graph = DeviceGraph::capture(device, work);
  EXPECT_EQ(graph.kernels(), 3u);
  copy_values(on_gpu({3, 4, 5}), x);
  EXPECT_EQ(y.to_vector(), (std::vector<float>{2, 8, 18})) << "a capture runs nothing";
  const DeviceCounters before = device_counters();
  graph.launch();
  EXPECT_EQ(device_counters().graph_launches, before.graph_launches + 1);
  EXPECT_EQ(device_counters().launches, before.launches);
  EXPECT_EQ(device_counters().synchronizations, before.synchronizations);
  EXPECT_EQ(y.to_vector(), (std::vector<float>{18, 32, 50}));
}

/// Tensors that are created between launches do not use the graphs' memory, and graphs do not disturb each other.
TEST(DeviceGraph, KeepsItsMemory) {
  const Device device = test_device();
  const Tensor x = on_gpu({1, 2, 3}), y = on_gpu({0, 0, 0}), z = on_gpu({0, 0, 0});
  const auto first = [&] { copy_values((x + x) * (x + x + x), y); };
  const auto second = [&] { copy_values((x * x) * (x * x * x), z); };
  first(), second();
  const DeviceGraph one = DeviceGraph::capture(device, first), two = DeviceGraph::capture(device, second);
  for (int i = 0; i < 3; ++i) {
    std::vector<Tensor> others;
    for (int k = 0; k < 16; ++k) others.push_back(full({3}, k, {DType::f32, device}));
    one.launch(), two.launch();
    for (int k = 0; k < 16; ++k) {
      EXPECT_EQ(others[static_cast<size_t>(k)].to_vector(), std::vector<float>(3, static_cast<float>(k)));
    }
    EXPECT_EQ(y.to_vector(), (std::vector<float>{6, 24, 54}));
    EXPECT_EQ(z.to_vector(), (std::vector<float>{1, 32, 243}));
  }
}

TEST(DeviceGraph, AFailedCaptureLeavesTheDeviceUsable) {
  const Device device = test_device();
  const Tensor x = on_gpu({1, 2, 3});
  const auto capture_error = [&](const std::function<void()>& work) -> std::string {
    try {
      DeviceGraph::capture(device, work);
    } catch (const DeviceError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(capture_error([&] { (x + x).to_vector(); }), "memory.download: not possible while a graph is captured");
  EXPECT_EQ(capture_error([&] { on_gpu({1, 2}); }), "memory.upload: not possible while a graph is captured");
  EXPECT_EQ(capture_error([&] {
              EXPECT_TRUE(is_capturing(device));
              throw DeviceError("stop");
            }),
            "stop");
  EXPECT_FALSE(is_capturing(device));
  EXPECT_EQ((x + x).to_vector(), (std::vector<float>{2, 4, 6}));
  const Tensor y = on_gpu({0, 0, 0});
  const DeviceGraph graph = DeviceGraph::capture(device, [&] { copy_values(x, y); });
  graph.launch();
  EXPECT_EQ(y.to_vector(), x.to_vector());
}

TEST(DeviceGraph, CanBeSwitchedOff) {
  const Device device = test_device();
  EXPECT_TRUE(has_graphs(device));
  EXPECT_FALSE(has_graphs(kCpu));
  setenv("ATTEND_GRAPHS", "off", 1);
  EXPECT_FALSE(has_graphs(device));
  unsetenv("ATTEND_GRAPHS");
}

TEST(DeviceGraph, CanBeMoved) {
  const Tensor x = on_gpu({1}), y = on_gpu({0});
  DeviceGraph graph;
  EXPECT_FALSE(graph);
  graph = DeviceGraph::capture(test_device(), [&] { copy_values(x + x, y); });
  const DeviceGraph moved = std::move(graph);
  moved.launch();
  EXPECT_EQ(y.to_vector(), std::vector<float>{2});
}

}  // namespace
}  // namespace attend
