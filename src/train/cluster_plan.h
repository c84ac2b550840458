#pragma once

#include <cstdint>

#include "attend/train/options.h"

namespace attend {

/// What a training on several processes is, for the cost model.
struct ClusterOptions {
  double parameters = 0;       ///< number of parameters
  double compute_seconds = 0;  ///< of one process for its batches of an update
  int64_t processes = 1;
  int64_t per_host = 1;   ///< processes that share a host's link
  double link_gbit = 25;  ///< bandwidth of a host, each way
  double latency_seconds = 20e-6;
  int64_t busy_threads =
      0;  ///< threads of a process if they use all cores of the host; 0: the exchange has its own core
  WireType wire = WireType::f32;
  ShardedState shard = ShardedState::none;
};

struct ClusterCost {
  double exchange_seconds = 0;  ///< of the gradients, and with a divided optimizer of the parameters
  double exposed_seconds = 0;   ///< of them, those that the backward pass does not hide
  double shared_seconds = 0;    ///< by which the computation is longer because it shares its cores with the exchange
  double step_seconds = 0;
  double efficiency = 0;  ///< compute_seconds / step_seconds
};

/// The cost of an update by the exchange that GradientExchange makes:
///
///   bytes:    a process sends and receives 2 (P − 1) / P · n bytes of gradients; the part for other hosts passes the
///             host's link, which its processes share, the rest the host's memory
///   latency:  each bucket is one all-to-all and one all-gather of P − 1 messages each
///   addition: P values for each value of the process's slice, at the bandwidth of memory
///   overlap:  buckets travel during the backward pass, two thirds of the computation; the last one cannot
///   cores:    where the computation uses all cores, the exchange takes the time of one of its threads
///
/// The bandwidths of memory are fitted to measurements: see docs/clusters.md.
ClusterCost cluster_cost(const ClusterOptions& options);

}  // namespace attend
