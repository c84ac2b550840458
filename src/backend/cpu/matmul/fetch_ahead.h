#pragma once

#include <algorithm>
#include <cstdint>

#include "attend/base/dtype.h"

namespace attend::cpu {

/// Prefetches rows that are needed soon, a few cache lines at a time, while another computation runs. A block of
/// weights consists of pieces of many rows, each too short for the hardware prefetcher. More than about twenty
/// prefetches at once would be dropped.
class FetchAhead {
 public:
  FetchAhead() = default;
  /// `times` is the approximate number of calls of fetch().
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

/// How to prefetch memory that is read as one stream.
struct StreamAhead {
  int64_t bytes;
  bool past_caches;  ///< prefetch into L1 only, so that the outer caches keep code and activations

  // Forced inline: GCC treats a function that only prefetches as free of effects and drops its calls.
  [[gnu::always_inline]] void fetch(const void* at) const {
    const char* there = static_cast<const char*>(at) + bytes;
    if (past_caches)
      __builtin_prefetch(there, 0, 0);
    else
      __builtin_prefetch(there, 0, 2);
  }
};

/// Splits consecutive rows into two streams that are read side by side. Returns how many rows the second stream begins
/// after the first, a multiple of `unit`. Two streams keep more cache lines in flight (Zen 3: int8 decodes 6 to 8 %
/// faster, f32 and bf16 14 %). Streams close to each other are slower than one: returns 0, for a single stream, if
/// there are too few rows.
inline int64_t lines_apart(int64_t rows, int64_t row_bytes, int64_t unit) {
  constexpr int64_t kLeastApart = 16 << 10;
  const int64_t apart = rows / 2 / unit * unit;
  return apart * row_bytes >= kLeastApart ? apart : 0;
}

/// The settings for this processor, for elements of type `format`. `once`: each element is used only once.
StreamAhead stream_ahead(DType format, bool once);

}  // namespace attend::cpu
