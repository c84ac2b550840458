#pragma once

#include <algorithm>
#include <cstdint>

namespace attend::cpu {

/// Rows of memory that are needed soon, asked for a few lines at a time while something else is computed: a block of
/// weights, pieces of many rows, is too short in each for the hardware's own prefetching. More than about twenty lines
/// at once would be dropped.
class FetchAhead {
 public:
  FetchAhead() = default;
  /// `times` is how often fetch() will be called, more or less.
  FetchAhead(const void* begin, int64_t row_stride, int64_t rows, int64_t row_bytes, int64_t times)
      : row_(static_cast<const char*>(begin)),
        row_stride_(row_stride),
        rows_(row_bytes > 0 ? rows : 0),
        lines_((row_bytes + kLine - 1) / kLine),
        share_(rows_ * lines_ / std::max<int64_t>(1, times) + 1) {}

  void fetch() {
    for (int64_t i = 0; i < share_ && rows_ > 0; ++i) {
      __builtin_prefetch(row_ + line_ * kLine, 0, 2);  // into L2
      if (++line_ == lines_) line_ = 0, row_ += row_stride_, --rows_;
    }
  }

 private:
  static constexpr int64_t kLine = 64;
  const char* row_ = nullptr;
  int64_t row_stride_ = 0, rows_ = 0, lines_ = 0, share_ = 0, line_ = 0;
};

}  // namespace attend::cpu
