#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>

#include "attend/autograd/autograd.h"
#include "attend/backend/devices.h"
#include "attend/base/random.h"
#include "attend/tensor/creation.h"
#include "distributed/thread_group.h"
#include "testing/pretend_device.h"
#include "train/broadcast.h"
#include "train/cluster_plan.h"
#include "train/gradient_exchange.h"

namespace attend {
namespace {

constexpr int64_t kSizes[] = {1, 33, 70000, 257, 80000};  // three buckets, the first with one parameter

/// The gradient of one parameter for one batch; some batches do not reach one of the parameters.
Tensor gradient(size_t parameter, int64_t batch) {
  if (parameter == 3 && batch % 3 == 0) return {};
  std::vector<float> values;
  for (int64_t i = 0; i < kSizes[parameter]; ++i) {
    const auto random = philox(parameter, static_cast<uint64_t>(i), static_cast<uint64_t>(batch));
    values.push_back(std::ldexp(uniform_from_bits(random[0]) - 0.5f, static_cast<int>(random[1] % 16)));
  }
  return tensor<float>(values, {kSizes[parameter]});
}

std::vector<Tensor> parameters(Device device) {
  std::vector<Tensor> result;
  for (const int64_t size : kSizes) result.push_back(zeros({size}, {DType::f32, device}));
  return result;
}

Tensor gradient_on(Device device, size_t parameter, int64_t batch) {
  const Tensor values = gradient(parameter, batch);
  if (!values || parameter != 1) return values ? to(values, device) : values;
  const int64_t size = kSizes[parameter];  // one gradient has gaps
  const Tensor wide = zeros({2 * size}, {DType::f32, device}).as_strided({size}, {2}, 1);
  copy_values(to(values, device), wide);
  return wide;
}

std::vector<std::vector<float>> sums_alone(int64_t batches) {
  std::vector<std::vector<float>> result;
  for (size_t i = 0; i < std::size(kSizes); ++i) {
    GradientSum sum;
    for (int64_t batch = 0; batch < batches; ++batch) sum.push({batch, 1, gradient(i, batch)}, add_gradient);
    result.push_back(sum.total(add_gradient).to_vector<float>());
  }
  return result;
}

Device on_cpu(int) { return kCpu; }

/// The sums that every rank gets. Rank r computes on device_of(r), and gradients travel by `path`.
std::vector<std::vector<float>> sums_of_ranks(int ranks, const ExchangeOptions& options,
                                              const std::function<Device(int)>& device_of = on_cpu,
                                              const std::string& path = "through") {
  std::vector<std::vector<float>> result;
  distributed::run_ranks(ranks, [&](distributed::Group& group) {
    const Device device = device_of(group.rank());
    GradientExchange exchange(parameters(device), group, options);
    EXPECT_EQ(exchange.path().substr(0, path.size()), path) << exchange.path();
    const int64_t share = options.batches / ranks;
    for (int update = 0; update < 2; ++update) {  // buffers are used again
      for (size_t i = std::size(kSizes); i-- > 0;) {
        GradientSum sum;
        for (int64_t j = 0; j < share; ++j) {
          const int64_t batch = group.rank() * share + j;
          if (options.order == GradientOrder::tree || j == 0) {
            sum.push({batch, 1, gradient_on(device, i, batch)}, add_gradient);
          } else {
            add_gradient(sum.parts()[0].value, gradient_on(device, i, batch));
          }
        }
        exchange.ready(i, sum);
      }
      std::vector<std::vector<float>> sums;
      for (const Tensor& sum : exchange.finish()) sums.push_back(to(sum, kCpu).to_vector<float>());
      group.barrier();
      if (group.rank() == 0) result = sums;
      group.barrier();
      EXPECT_EQ(sums, result) << "rank " << group.rank();
      group.barrier();
    }
    EXPECT_GE(exchange.times().busy, 0);
  });
  return result;
}

constexpr const char* kByMessages = "through the host's memory";

TEST(GradientExchange, HasTheBitsOfOneProcess) {
  for (const auto& [ranks, batches] : {std::pair{2, 2}, {2, 6}, {3, 6}, {4, 8}, {5, 5}, {2, 14}}) {
    const auto expected = sums_alone(batches);
    const ExchangeOptions options{.batches = batches};
    EXPECT_EQ(sums_of_ranks(ranks, options, on_cpu, "through shared memory"), expected) << ranks << ", " << batches;
    setenv("ATTEND_SHARED_MEMORY", "off", 1);
    EXPECT_EQ(sums_of_ranks(ranks, options, on_cpu, kByMessages), expected) << ranks << " ranks, " << batches;
    unsetenv("ATTEND_SHARED_MEMORY");
  }
}

TEST(GradientExchange, RoundsForTheWireAlsoInSharedMemory) {
  const ExchangeOptions options{.batches = 6, .wire = WireType::bf16};
  const auto shared = sums_of_ranks(3, options, on_cpu, "through shared memory");
  setenv("ATTEND_SHARED_MEMORY", "off", 1);
  EXPECT_EQ(sums_of_ranks(3, options, on_cpu, kByMessages), shared);
  unsetenv("ATTEND_SHARED_MEMORY");
}

TEST(GradientExchange, OtherOrdersAndTypesAreClose) {
  const auto expected = sums_alone(6);
  const auto fast = sums_of_ranks(3, {.batches = 6, .order = GradientOrder::fast});
  const auto rounded = sums_of_ranks(3, {.batches = 6, .wire = WireType::bf16});
  for (size_t i = 0; i < expected.size(); ++i) {
    for (size_t j = 0; j < expected[i].size(); ++j) {
      EXPECT_NEAR(fast[i][j], expected[i][j], 1e-2);
      EXPECT_NEAR(rounded[i][j], expected[i][j], 1024);
    }
  }
  EXPECT_NE(rounded, expected);
}

/// A GPU for each rank, as long as there are some.
Device pretend_gpu(int rank) { return {Device::Kind::cuda, (testing::pretend_device().index + rank) % 2}; }

TEST(GradientExchange, OnGpusThroughTheHostsMemory) {
  for (const auto& [ranks, batches] : {std::pair{2, 6}, {3, 6}}) {
    EXPECT_EQ(sums_of_ranks(ranks, {.batches = batches}, pretend_gpu), sums_alone(batches)) << ranks << " ranks";
  }
  const auto rounded = sums_of_ranks(2, {.batches = 6, .wire = WireType::bf16});
  EXPECT_EQ(sums_of_ranks(2, {.batches = 6, .wire = WireType::bf16}, pretend_gpu), rounded);
  const auto fast = sums_of_ranks(2, {.batches = 6, .order = GradientOrder::fast});
  EXPECT_EQ(sums_of_ranks(2, {.batches = 6, .order = GradientOrder::fast}, pretend_gpu), fast);
}

TEST(GradientExchange, FromGpuToGpu) {
  testing::pretend_device();
  setenv("ATTEND_PRETEND", "messages", 1);
  for (const auto& [ranks, batches] : {std::pair{1, 4}, {2, 2}, {2, 6}}) {
    EXPECT_EQ(sums_of_ranks(ranks, {.batches = batches}, pretend_gpu, "by pretended messages"), sums_alone(batches))
        << ranks << " ranks, " << batches;
  }
  const auto rounded = sums_of_ranks(2, {.batches = 6, .wire = WireType::bf16});
  EXPECT_EQ(sums_of_ranks(2, {.batches = 6, .wire = WireType::bf16}, pretend_gpu, "by pretended"), rounded);
  const auto fast = sums_of_ranks(2, {.batches = 6, .order = GradientOrder::fast});
  EXPECT_EQ(sums_of_ranks(2, {.batches = 6, .order = GradientOrder::fast}, pretend_gpu, "by pretended"), fast);
  // Three ranks have two GPUs.
  const std::string shared = "through the host's memory (rank 0 (thread) and rank 2 (thread) share a GPU)";
  EXPECT_EQ(sums_of_ranks(3, {.batches = 6}, pretend_gpu, shared), sums_alone(6));
  unsetenv("ATTEND_PRETEND");
}

/// On the GPU that ATTEND_TEST_DEVICE names.
TEST(GradientExchange, ByNcclOnOneGpu) {
  const char* name = std::getenv("ATTEND_TEST_DEVICE");
  if (name == nullptr || std::string(name) == "cpu") GTEST_SKIP() << "no GPU: set ATTEND_TEST_DEVICE=cuda";
  const auto own = [device = parse_device(name)](int) { return device; };
  for (const int64_t batches : {2, 6}) {
    EXPECT_EQ(sums_of_ranks(1, {.batches = batches}, own, "by NCCL"), sums_alone(batches));
    EXPECT_EQ(sums_of_ranks(2, {.batches = 2 * batches}, own), sums_alone(2 * batches));  // they share it
  }
}

TEST(Divided, ResultsAreInOrderForAnyNumberOfProcesses) {
  for (const int ranks : {1, 2, 3}) {
    distributed::run_ranks(ranks, [](distributed::Group& group) {
      const auto squares = divided(5, 1, [](int64_t i) { return std::vector<double>{static_cast<double>(i * i)}; });
      EXPECT_EQ(squares, (std::vector<double>{0, 1, 4, 9, 16}));
      const auto texts = divided_range(4, [](int64_t begin, int64_t end) {
        std::vector<std::string> result;
        for (int64_t i = begin; i < end; ++i) result.push_back(std::to_string(i));
        return result;
      });
      EXPECT_EQ(texts, (std::vector<std::string>{"0", "1", "2", "3"}));
      std::vector<NamedTensor> weights{{"w", full({3}, group.rank() + 1.0)}};
      broadcast_weights(group, weights);
      EXPECT_EQ(weights[0].second.to_vector<float>(), (std::vector<float>{1, 1, 1}));
    });
  }
}

TEST(ClusterPlan, FollowsItsEquations) {
  ClusterOptions options{.parameters = 124e6, .compute_seconds = 1};
  EXPECT_EQ(cluster_cost(options).step_seconds, 1);
  options.processes = 64;
  const ClusterCost slow = cluster_cost(options);
  EXPECT_GT(slow.step_seconds, 1);
  EXPECT_LE(slow.exposed_seconds, slow.exchange_seconds);
  EXPECT_NEAR(slow.efficiency * slow.step_seconds, 1, 1e-9);
  options.link_gbit = 100;
  EXPECT_GT(cluster_cost(options).efficiency, slow.efficiency);
  const ClusterCost fast = cluster_cost(options);
  options.shard = ShardedState::optimizer;
  EXPECT_GT(cluster_cost(options).exchange_seconds, fast.exchange_seconds);
  options.shard = ShardedState::none, options.wire = WireType::bf16;
  EXPECT_LT(cluster_cost(options).exchange_seconds, fast.exchange_seconds);
  options.wire = WireType::f32;
  options.per_host = 64;  // they share memory
  EXPECT_LT(cluster_cost(options).exchange_seconds, fast.exchange_seconds);
  options.per_host = 1, options.busy_threads = 2;
  const ClusterCost shared = cluster_cost(options);
  EXPECT_NEAR(shared.shared_seconds, (fast.exchange_seconds - fast.exposed_seconds) / 2, 1e-12);
  EXPECT_NEAR(shared.step_seconds, fast.step_seconds + shared.shared_seconds, 1e-12);
}

}  // namespace
}  // namespace attend
