#pragma once

#include <cstdint>

namespace attend::cli {

struct RingBenchOptions {
  int64_t tokens = 262144, heads = 1, dim = 64;
  bool check = false;  ///< compare some rows with attention to the whole sequence
  bool json = false;
};

/// Measures causal attention to one sequence that all processes divide among themselves, forward and backward.
void run_ring_bench(const RingBenchOptions& options);

}  // namespace attend::cli
