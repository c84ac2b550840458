#include "backend/cpu/matmul/fetch_ahead.h"

namespace attend::cpu {

// Measured with the weights of a model of GPT-2's size and one sequence, relative to the bandwidth of a plain sum over
// memory:
// - Two cores of Zen 3, 26 to 38 GB/s. f32 is best at a distance of 512 bytes (1 KiB costs 5 %, one stream at 4 KiB a
//   quarter). bf16 and int8 gain 6 % from a longer distance, up to 768 bytes with two streams: they take more
//   instructions per cache line, so the core looks less far ahead by itself. Bypassing the outer caches gains another
//   2 %.
// - Two cores of an Intel Xeon with AMX, 27 to 30 GB/s. One stream at 512 bytes, 1, 2 and 4 KiB reached 0.71, 0.72,
//   0.84 and 0.89 of the bandwidth with f32, and 0.59, 0.64, 0.71 and 0.82 with bf16. 8 KiB is a little better; two
//   streams at 4 KiB equal one at 8 KiB. Bypassing the outer caches costs a third there.
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
