#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace attend {

/// Threads that run tasks in the order in which they were added.
class WorkerPool {
 public:
  explicit WorkerPool(size_t threads);
  ~WorkerPool() { stop(); }
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// Adds a task, which must not throw. Drops it after stop().
  void add(std::function<void()> task);
  void stop();  ///< waits for running tasks and drops waiting ones

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool is_stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace attend
