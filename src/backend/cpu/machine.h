#pragma once

namespace attend::cpu {

/// Peak rates of this machine with threads() threads, to compare kernels with. Each measurement takes 20 to 50
/// milliseconds and returns the best of several tries.

/// Independent f32 multiply-adds in registers, two operations each, in GFLOP/s.
double fma_peak_gflops();
/// The same with bf16 operands; equals fma_peak_gflops() if no instruction multiplies bf16.
double bf16_peak_gflops();
/// Products of 8-bit integers with 32-bit sums, in GOP/s, using the instructions that multiply int8 weights.
double int8_peak_gops();
/// Reading a buffer much larger than the caches, on huge pages, in GB/s.
double read_bandwidth_gbs();

}  // namespace attend::cpu
