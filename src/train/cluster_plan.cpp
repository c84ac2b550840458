#include "train/cluster_plan.h"

#include <algorithm>
#include <cmath>

#include "attend/base/error.h"

namespace attend {
namespace {

constexpr double kMostBytes = 8 << 20, kLeastBytes = 1 << 18, kBuckets = 8;  // of a bucket: see GradientExchange
constexpr double kHostBandwidth = 1.9e9;   // bytes per second between processes of a host, each way
constexpr double kMemoryBandwidth = 1e10;  // bytes per second of one thread that packs, adds and unpacks
constexpr double kMeeting = 5e-5;          // seconds until processes of a host that wait for each other are awake
constexpr double kBackwardShare = 2.0 / 3;

/// Seconds in which a process sends `bytes`, an equal part to every other one, and receives as much.
double transfer_seconds(const ClusterOptions& options, double bytes) {
  const auto all = static_cast<double>(options.processes),
             local = static_cast<double>(std::min(options.per_host, options.processes));
  const double outside = bytes * (all - local) / std::max(all - 1, 1.0), inside = bytes - outside;
  return outside * local / (options.link_gbit * 1e9 / 8) + inside / kHostBandwidth;
}

}  // namespace

ClusterCost cluster_cost(const ClusterOptions& options) {
  require<ShapeError>(options.processes >= 1 && options.per_host >= 1, "plan: expected at least one process");
  require<ShapeError>(options.compute_seconds > 0 && options.link_gbit > 0, "plan: expected positive times and rates");
  ClusterCost cost{.step_seconds = options.compute_seconds, .efficiency = 1};
  if (options.processes == 1) return cost;
  const auto processes = static_cast<double>(options.processes);
  const double bytes = options.parameters * (options.wire == WireType::bf16 ? 2 : 4);
  const double buckets = std::max(
      1.0, std::ceil(options.parameters * 4 / std::clamp(options.parameters * 4 / kBuckets, kLeastBytes, kMostBytes)));
  const double sent = transfer_seconds(options, 2 * bytes * (processes - 1) / processes) +
                      2 * buckets * (processes - 1) * options.latency_seconds +
                      3 * options.parameters * 4 / kMemoryBandwidth;
  // In memory that the processes share, each copies its gradients and adds its slice of all: see SharedSums.
  const double shared =
      (2 + 3 * (processes - 1) / processes) * options.parameters * 4 / kMemoryBandwidth + 3 * buckets * kMeeting;
  const double gradients = options.processes <= options.per_host ? shared : sent;
  const double rows = options.shard == ShardedState::optimizer
                          ? transfer_seconds(options, options.parameters * 4 * (processes - 1) / processes)
                          : 0;
  const double last = gradients / buckets;
  cost.exchange_seconds = gradients + rows;
  cost.exposed_seconds =
      std::max(gradients - last - kBackwardShare * options.compute_seconds * (1 - 1 / buckets), 0.0) + last + rows;
  if (options.busy_threads > 0) {
    cost.shared_seconds = (cost.exchange_seconds - cost.exposed_seconds) / static_cast<double>(options.busy_threads);
  }
  cost.step_seconds += cost.exposed_seconds + cost.shared_seconds;
  cost.efficiency = options.compute_seconds / cost.step_seconds;
  return cost;
}

}  // namespace attend
