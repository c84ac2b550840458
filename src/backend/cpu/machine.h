#pragma once

namespace attend::cpu {

/// What this machine can do with threads() threads, for comparison: each takes some 20 to 50 milliseconds and gives the
/// best of several tries.

/// Independent f32 multiply-adds in registers, two operations each, in GFLOP/s.
double fma_peak_gflops();
/// Reading a buffer much larger than the caches, on huge pages, in GB/s.
double read_bandwidth_gbs();

}  // namespace attend::cpu
