#include <cstddef>
#include <cstring>

#include "backend/cpu/cpu.h"
#include "backend/cpu/strided.h"

// Gathers rows and elements by i64 indices, and adds gradients back to where they were gathered from.
namespace attend::cpu {
namespace {

/// One task makes all additions to a table row, in the order of the index. Tasks divide a table by columns and by row
/// number modulo kBuckets, so that neighbouring rows, which are often all frequent, go to different tasks.
constexpr int64_t kBuckets = 8;
constexpr int64_t kColumns = 256;

int64_t index_at(const ConstRows& index, int64_t i) {
  return static_cast<const int64_t*>(index.data)[i / index.cols * index.stride + i % index.cols];
}

template <class T>
T* row_of(const Rows& x, int64_t row) {
  return static_cast<T*>(x.data) + row * x.stride;
}
template <class T>
const T* row_of(const ConstRows& x, int64_t row) {
  return static_cast<const T*>(x.data) + row * x.stride;
}

int64_t rows_per_task(int64_t cols) { return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, cols)); }

}  // namespace

void check_index(ConstRows index, int64_t limit, const char* op) {
  for (int64_t row = 0; row < index.rows; ++row) {
    const auto* values = row_of<int64_t>(index, row);
    for (int64_t i = 0; i < index.cols; ++i) {
      require<ShapeError>(values[i] >= 0 && values[i] < limit, op, ": index ", values[i], " is outside 0 to ",
                          limit - 1);
    }
  }
}

void take_rows(ConstRows table, ConstRows index, Rows y) {
  const size_t item = size_of(y.dtype), bytes = static_cast<size_t>(y.cols) * item;
  if (bytes == 0) return;
  const auto* from = static_cast<const std::byte*>(table.data);
  auto* to = static_cast<std::byte*>(y.data);
  parallel_ranges(y.rows, rows_per_task(y.cols), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      std::memcpy(to + static_cast<size_t>(i * y.stride) * item,
                  from + static_cast<size_t>(index_at(index, i) * table.stride) * item, bytes);
    }
  });
}

void take_rows_backward(ConstRows dy, ConstRows index, Rows dtable) {
  with_float(dtable.dtype, "take_rows_backward", [&](auto type) {
    using T = decltype(type);
    const int64_t buckets = dy.numel() < kGrain ? 1 : kBuckets, blocks = (dy.cols + kColumns - 1) / kColumns;
    parallel_for(buckets * blocks, [&](int64_t task) {
      const int64_t first = task / buckets * kColumns, count = std::min(kColumns, dy.cols - first);
      for (int64_t i = 0; i < dy.rows; ++i) {
        const int64_t row = index_at(index, i);
        if (row % buckets != task % buckets) continue;
        const T* from = row_of<T>(dy, i) + first;
        T* to = row_of<T>(dtable, row) + first;
        for (int64_t j = 0; j < count; ++j) to[j] += from[j];
      }
    });
  });
}

void gather_last(ConstRows x, ConstRows index, Rows y) {
  with_type(y.dtype, [&](auto type) {
    using T = decltype(type);
    parallel_ranges(y.rows, rows_per_task(y.cols), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* from = row_of<T>(x, row);
        const auto* places = row_of<int64_t>(index, row);
        T* to = row_of<T>(y, row);
        for (int64_t i = 0; i < y.cols; ++i) to[i] = from[places[i]];
      }
    });
  });
}

void gather_last_backward(ConstRows dy, ConstRows index, Rows dx) {
  with_float(dx.dtype, "gather_last_backward", [&](auto type) {
    using T = decltype(type);
    parallel_ranges(dy.rows, rows_per_task(dy.cols), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* from = row_of<T>(dy, row);
        const auto* places = row_of<int64_t>(index, row);
        T* to = row_of<T>(dx, row);
        for (int64_t i = 0; i < dy.cols; ++i) to[places[i]] += from[i];
      }
    });
  });
}

}  // namespace attend::cpu
