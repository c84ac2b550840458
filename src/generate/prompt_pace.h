#pragma once

#include <algorithm>
#include <cstdint>

namespace attend {

/// How many prompt tokens a step may read while other sequences wait for their next token. The number follows the time
/// that earlier steps took, so that it fits any machine and model.
class PromptPace {
 public:
  static constexpr int64_t kFirst = 64;  ///< tokens, before any were read
  static constexpr int64_t kLeast = 16;  ///< tokens: smaller parts would take as long

  /// At most `tokens`, and as many as take about `seconds`; 0: no limit.
  PromptPace(int64_t tokens, double seconds) : tokens_(tokens), seconds_(seconds) {}

  int64_t budget() const {
    if (seconds_ <= 0) return tokens_;
    if (per_token_ <= 0) return std::min(tokens_, kFirst);
    const double fit = std::min(seconds_ / per_token_, static_cast<double>(tokens_));
    return std::min(tokens_, std::max(kLeast, static_cast<int64_t>(fit)));
  }

  /// A step took `seconds` and has read `tokens` prompt tokens, beside `rows` tokens of other sequences, which take
  /// about as long.
  void add(int64_t tokens, int64_t rows, double seconds) {
    if (tokens == 0) return;
    const double value = seconds / static_cast<double>(tokens + rows);
    // A moving average. A single slow step counts as at most twice the usual time: the machine may have been busy.
    per_token_ = per_token_ <= 0 ? value : per_token_ + 0.3 * (std::min(value, 2 * per_token_) - per_token_);
  }

 private:
  int64_t tokens_;
  double seconds_;
  double per_token_ = 0;  // seconds; 0: unknown
};

}  // namespace attend
