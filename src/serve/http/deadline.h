#pragma once

#include <chrono>
#include <cstddef>

namespace attend {

/// The deadline of one read or write: 5 seconds, plus one second per 128 KiB transferred.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  Deadline() : Deadline(std::chrono::seconds(5)) {}
  explicit Deadline(std::chrono::milliseconds patience) : end_(Clock::now() + patience) {}
  static Deadline never() {
    Deadline result;
    result.end_ = Clock::time_point::max();
    return result;
  }
  void moved(size_t bytes) { end_ += std::chrono::microseconds(bytes * 1'000'000 / kSlowest); }
  bool is_over(Clock::time_point now) const { return now >= end_; }

 private:
  static constexpr size_t kSlowest = 128 << 10;  // bytes per second
  Clock::time_point end_;
};

}  // namespace attend
