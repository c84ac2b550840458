#pragma once

#include <limits>
#include <vector>

#include "backend/cuda/types.cuh"

// One launch over many tensors: a table of slots is a kernel parameter, and each CTA takes a chunk of one slot.
namespace attend::cuda {

/// Bytes of a table. Kernel parameters may take 32,764 bytes.
constexpr size_t kTableBytes = 31 * 1024;

template <class Slot>
struct SlotTable {
  static constexpr int kSlots = static_cast<int>(kTableBytes / (sizeof(Slot) + sizeof(uint32_t)));
  int count = 0;
  uint32_t end[kSlots];  ///< number of CTAs up to and including each slot
  Slot slot[kSlots];
};

/// The slot of this CTA, and its first element.
template <class Slot>
struct SlotPlace {
  const Slot& slot;
  int64_t first;
};
template <class Slot>
__device__ SlotPlace<Slot> place_in(const SlotTable<Slot>& table, int64_t chunk) {
  int low = 0, high = table.count - 1;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (blockIdx.x < table.end[middle])
      high = middle;
    else
      low = middle + 1;
  }
  return {table.slot[low], static_cast<int64_t>(blockIdx.x - (low > 0 ? table.end[low - 1] : 0)) * chunk};
}

/// Calls launch(table, number of CTAs) for each table that the slots fill. A slot has `count` elements, and a CTA takes
/// `chunk` of them.
template <class Slot, class F>
void for_tables(const std::vector<Slot>& slots, int64_t chunk, F&& launch) {
  SlotTable<Slot> table;
  int64_t blocks = 0;
  const auto flush = [&] {
    if (table.count > 0) launch(table, blocks);
    table.count = 0;
    blocks = 0;
  };
  for (const Slot& slot : slots) {
    const int64_t needed = ceil_div(slot.count, chunk);
    if (needed == 0) continue;
    if (table.count == SlotTable<Slot>::kSlots || blocks + needed > std::numeric_limits<int32_t>::max()) flush();
    blocks += needed;
    table.slot[table.count] = slot;
    table.end[table.count++] = static_cast<uint32_t>(blocks);
  }
  flush();
}

/// Calls add(row, elements) for each contiguous piece of matrices of one shape: once if all are dense.
template <class F, class... Matrices>
void for_dense(int64_t rows, int64_t cols, F&& add, const Matrices&... matrices) {
  if (rows == 1 || ((!matrices || matrices.stride == matrices.cols) && ...)) return add(int64_t{0}, rows * cols);
  for (int64_t row = 0; row < rows; ++row) add(row, cols);
}

/// The start of a row; null if the matrix is absent.
template <class T, class Pointer>
auto row_at(const BasicRows<Pointer>& x, int64_t row) {
  using Result = std::conditional_t<std::is_const_v<std::remove_pointer_t<Pointer>>, const T*, T*>;
  return x ? static_cast<Result>(x.data) + row * x.stride : nullptr;
}

}  // namespace attend::cuda
