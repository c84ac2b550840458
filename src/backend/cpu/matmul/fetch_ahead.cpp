#include "backend/cpu/matmul/fetch_ahead.h"

namespace attend::cpu {

// Measured on weights with one sequence of GPT-2's size, beside what plain sums read:
// - two cores of Zen 3, 26 to 38 GB/s. f32 is best at 512 bytes (1 KiB takes 5 % off, one stream at 4 KiB a quarter).
//   bf16 and int8 gain 6 % from more, with two streams up to 768 bytes: with more instructions for each line the core
//   sees less far by itself. Past the caches is worth another 2 %.
// - two cores of an Intel Xeon with AMX, 27 to 30 GB/s. One stream at 512 bytes, 1, 2 and 4 KiB gave f32 0.71, 0.72,
//   0.84 and 0.89 of the bandwidth, bf16 0.59, 0.64, 0.71 and 0.82; 8 KiB is a little better, two streams at 4 KiB
//   are the same as one at 8. Past the caches takes a third off there.
StreamAhead stream_ahead(DType format, bool once) {
#if defined(__x86_64__)
  static const bool is_amd = __builtin_cpu_is("amd");
#else
  static constexpr bool is_amd = false;
#endif
  if (!is_amd) return {.bytes = 4 << 10, .past_caches = false};
  return {.bytes = format == DType::f32 ? 512 : 768, .past_caches = once};
}

}  // namespace attend::cpu
