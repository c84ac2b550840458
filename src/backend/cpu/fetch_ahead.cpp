#include "backend/cpu/fetch_ahead.h"

namespace attend::cpu {

// Measured on weights with one sequence of GPT-2's size, beside what plain sums read:
// - two cores of Zen 3, 26 to 38 GB/s. f32 is best at 512 bytes (1 KiB takes 5 % off, 4 KiB a quarter), bf16 and int8
//   at 1 KiB (6 % more than at 512 bytes): with more instructions for each line the core sees less far by itself.
//   Past the caches is worth another 2 %.
// - two cores of an Intel Xeon with AMX, 27 to 30 GB/s. 512 bytes, 1, 2 and 4 KiB gave f32 0.71, 0.72, 0.84 and 0.89 of
//   the bandwidth, bf16 0.59, 0.64, 0.71 and 0.82. In a later run 4, 8 and 12 KiB gave f32 0.92, 0.94 and 0.92, bf16
//   0.93, 0.97 and 1.00. Past the caches takes a third off there.
StreamAhead stream_ahead(DType format, bool once) {
#if defined(__x86_64__)
  static const bool is_amd = __builtin_cpu_is("amd");
#else
  static constexpr bool is_amd = false;
#endif
  if (!is_amd) return {.bytes = 8 << 10, .past_caches = false};
  return {.bytes = format == DType::f32 ? 512 : 1 << 10, .past_caches = once};
}

}  // namespace attend::cpu
