#pragma once

#include <mutex>

#include "serve/fields.h"

namespace attend {

/// Lets one request at a time use a resource, and refuses requests once too many are waiting.
class Turnstile {
 public:
  explicit Turnstile(int most_waiting) : most_(most_waiting) {}

  /// Throws ApiError with status 503 if the queue is full.
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
  int inside_ = 0;  // requests waiting for their turn
  int most_;
};

}  // namespace attend
