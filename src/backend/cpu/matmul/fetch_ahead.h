#pragma once

#include <algorithm>
#include <cstdint>

#include "attend/base/dtype.h"

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

/// How memory that is read in one stream is asked for ahead of its use.
struct StreamAhead {
  int64_t bytes;
  bool past_caches;  ///< into L1 alone: the others keep code and activations

  // Inline by force: to GCC a function that does nothing but prefetch has no effect, and calls of it are dropped.
  [[gnu::always_inline]] void fetch(const void* at) const {
    const char* there = static_cast<const char*>(at) + bytes;
    if (past_caches)
      __builtin_prefetch(there, 0, 0);
    else
      __builtin_prefetch(there, 0, 2);
  }
};

/// Rows that are read one after the other, cut into two streams side by side: how many rows the second begins after the
/// first, a multiple of `unit`. A core has more lines under way that way (Zen 3: int8 decodes 6 to 8 % faster, f32 and
/// bf16 14 %). Streams close to each other are slower than one, so it is 0, for one, where there are too few rows.
inline int64_t lines_apart(int64_t rows, int64_t row_bytes, int64_t unit) {
  constexpr int64_t kLeastApart = 16 << 10;
  const int64_t apart = rows / 2 / unit * unit;
  return apart * row_bytes >= kLeastApart ? apart : 0;
}

/// What suits this processor, for elements of `format` that are used only `once`.
StreamAhead stream_ahead(DType format, bool once);

}  // namespace attend::cpu
