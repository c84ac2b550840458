#include <cstring>

#include "backend/cpu/cpu.h"
#include "backend/cpu/memory.h"

namespace attend::cpu {
namespace {

void copy_bytes(void* to, const void* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

/// The back end's table of contents, checked by the compiler.
constexpr Kernels kTable{
    .memory = {.allocate = allocate,
               .release = release,
               .upload = copy_bytes,
               .download = copy_bytes,
               .live_bytes = live_bytes,
               .peak_bytes = peak_bytes,
               .reset_peak = reset_peak},
    .elementwise = {.copy = copy, .fill = fill, .affine = affine, .accumulate = accumulate, .binary = binary},
    .reduce = {.sum = sum, .sum_of_squares = sum_of_squares},
    .matmul = {.multiply = multiply},
    .softmax = {.forward = softmax},
    .index = {.check = check_index,
              .take_rows = take_rows,
              .take_rows_backward = take_rows_backward,
              .gather_last = gather_last,
              .gather_last_backward = gather_last_backward},
};

}  // namespace

const Kernels& table() { return kTable; }

}  // namespace attend::cpu
