#pragma once

namespace attend::cpu {

/// What this machine can do with threads() threads, for comparison: each takes a few milliseconds and gives the best of
/// a few tries.

/// Independent f32 multiply-adds in registers, two operations each, in GFLOP/s.
double fma_peak_gflops();
/// Reading a buffer much larger than the caches, on huge pages, in GB/s.
double read_bandwidth_gbs();

}  // namespace attend::cpu
