#pragma once

namespace attend::cpu {

/// What this machine can do with threads() threads, for comparison: each takes some 20 to 50 milliseconds and gives the
/// best of several tries.

/// Independent f32 multiply-adds in registers, two operations each, in GFLOP/s.
double fma_peak_gflops();
/// The same with bf16 operands: f32's where no instruction multiplies bf16.
double bf16_peak_gflops();
/// Products of 8-bit integers added up in 32 bits, by the instructions that int8 weights are multiplied with.
double int8_peak_gops();
/// Reading a buffer much larger than the caches, on huge pages, in GB/s.
double read_bandwidth_gbs();

}  // namespace attend::cpu
