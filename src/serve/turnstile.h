#pragma once

#include <mutex>

#include "serve/fields.h"

namespace attend {

/// Lets one at a time use the models; those who would wait behind too many are turned away.
class Turnstile {
 public:
  explicit Turnstile(int most_waiting) : most_(most_waiting) {}

  /// Throws ApiError, 503, where the queue is full.
  std::unique_lock<std::mutex> enter() {
    {
      const std::lock_guard lock(count_);
      if (inside_ > most_) throw ApiError(503, "too many requests are waiting for the model; try again");
      ++inside_;
    }
    std::unique_lock<std::mutex> turn(turn_);
    const std::lock_guard lock(count_);
    --inside_;
    return turn;
  }

 private:
  std::mutex count_, turn_;
  int inside_ = 0;  // waiting
  int most_;
};

}  // namespace attend
