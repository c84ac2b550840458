#include "attend/base/threads.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "attend/base/error.h"

namespace attend {
namespace {

/// Number of times a worker polls for work before it sleeps. Kernels follow each other within microseconds, and waking
/// a sleeping thread takes longer than most kernels run.
constexpr int kSpins = 4000;
constexpr int kMostThreads = 1024;

void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

thread_local bool inside_task = false;
thread_local int place = 0;

/// The address range that one worker prefetches while it waits. These are addresses and not pointers, because the
/// memory may have been freed. The two bounds are not updated atomically together: a torn pair prefetches the wrong
/// memory, which is harmless.
struct alignas(64) IdleMemory {
  std::atomic<uintptr_t> next{0}, end{0};

  /// Prefetches eight cache lines. A core drops prefetches beyond the number it can have in flight. Eight per pause
  /// stay below that number and reach the bandwidth of reading (17 GB/s on Zen 3).
  void fetch_some() {
    constexpr uintptr_t kLine = 64, kLines = 8;
    const uintptr_t begin = next.load(std::memory_order_relaxed), last = end.load(std::memory_order_relaxed);
    if (begin >= last) return;
    const uintptr_t stop = std::min(last, begin + kLines * kLine);
    for (uintptr_t at = begin; at < stop; at += kLine) __builtin_prefetch(reinterpret_cast<const void*>(at), 0, 2);
    next.store(stop, std::memory_order_relaxed);
  }
};

/// One parallel call: the next task index, the number of busy workers and the first exception.
struct Job {
  TaskRef task;
  int64_t count = 0;
  std::atomic<int64_t> next{0};
  std::atomic<int> busy{0};
  std::atomic<bool> failed{false};
  std::exception_ptr error;
};

void work_on(Job& job) {
  inside_task = true;
  for (int64_t index = job.next.fetch_add(1); index < job.count; index = job.next.fetch_add(1)) {
    try {
      job.task(index);
    } catch (...) {
      if (!job.failed.exchange(true)) job.error = std::current_exception();
      job.next.store(job.count);
    }
  }
  inside_task = false;
}

class Pool {
 public:
  ~Pool() { resize(0); }

  /// Replaces the workers unless their number is `workers` already. Must not be called while a job runs.
  void resize(int workers) {
    if (workers == static_cast<int>(workers_.size())) return;
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    for (auto& worker : workers_) worker.join();
    workers_.clear();
    stopping_ = false;
    idle_ = std::make_unique<IdleMemory[]>(static_cast<size_t>(workers));
    for (int i = 0; i < workers; ++i) {
      workers_.emplace_back([this, i, seen = generation_.load()] {
        place = i + 1;
        loop(seen, idle_[static_cast<size_t>(i)]);
      });
    }
  }

  void set_idle_memory(int worker, uintptr_t begin, int64_t bytes) {
    if (worker < 1 || worker > static_cast<int>(workers_.size())) return;
    IdleMemory& idle = idle_[static_cast<size_t>(worker - 1)];
    idle.end.store(begin + static_cast<uintptr_t>(bytes), std::memory_order_relaxed);
    idle.next.store(begin, std::memory_order_relaxed);
  }

  /// Runs the job on the caller and on every worker that wakes before the caller runs out of tasks. A short job
  /// therefore never waits for a sleeping worker.
  void run(Job& job) {
    bool anyone_asleep = false;
    {
      std::lock_guard lock(mutex_);
      job_ = &job;
      generation_.fetch_add(1);
      anyone_asleep = sleeping_ > 0;
    }
    if (anyone_asleep) wake_.notify_all();
    work_on(job);
    {
      std::lock_guard lock(mutex_);
      job_ = nullptr;
    }
    for (int spins = 0; job.busy.load() > 0; ++spins) spins < kSpins ? pause_core() : std::this_thread::yield();
  }

  std::mutex callers;  ///< held by the caller that uses the workers

 private:
  void loop(uint64_t seen, IdleMemory& idle) {
    for (;;) {
      for (int spins = 0; spins < kSpins && generation_.load() == seen && !stopping_.load(); ++spins) {
        idle.fetch_some();
        pause_core();
      }
      Job* job = nullptr;
      {
        std::unique_lock lock(mutex_);
        ++sleeping_;
        wake_.wait(lock, [&] { return stopping_.load() || generation_.load() != seen; });
        --sleeping_;
        if (stopping_.load()) return;
        seen = generation_.load();
        job = job_;
        if (job == nullptr) continue;  // the other threads finished the job already
        job->busy.fetch_add(1);
      }
      work_on(*job);
      job->busy.fetch_sub(1);
    }
  }

  std::vector<std::thread> workers_;
  std::unique_ptr<IdleMemory[]> idle_;  // one for each worker
  std::mutex mutex_;
  std::condition_variable wake_;
  int sleeping_ = 0;  // guarded by mutex_
  std::atomic<uint64_t> generation_{0};
  std::atomic<bool> stopping_{false};
  Job* job_ = nullptr;  // guarded by mutex_
};

Pool& pool() {
  static Pool instance;
  return instance;
}

int initial_threads() {
  const char* text = std::getenv("ATTEND_THREADS");
  if (text != nullptr && *text != '\0') {
    int count = 0;
    const char* end = text + std::strlen(text);
    const auto [stop, error] = std::from_chars(text, end, count);
    require<Error>(error == std::errc() && stop == end && count >= 1 && count <= kMostThreads,
                   "ATTEND_THREADS: expected a whole number from 1 to ", kMostThreads, ", got '", text, "'");
    return count;
  }
  const auto hardware = static_cast<int>(std::thread::hardware_concurrency());
  return hardware > 0 ? hardware : 1;
}

std::atomic<int>& wanted_threads() {
  static std::atomic<int> count{initial_threads()};
  return count;
}

}  // namespace

int threads() { return wanted_threads().load(); }

void set_threads(int count) {
  require<ShapeError>(count >= 1 && count <= kMostThreads, "set_threads: expected 1 to ", kMostThreads,
                      " threads, got ", count);
  wanted_threads().store(count);
}

int worker_place() { return place; }

void set_idle_memory(int worker, const void* begin, int64_t bytes) {
  if (inside_task) return;
  const std::unique_lock caller(pool().callers, std::try_to_lock);
  if (caller) pool().set_idle_memory(worker, reinterpret_cast<uintptr_t>(begin), bytes);
}

void run_tasks(int64_t count, TaskRef task) {
  const int wanted = threads();
  std::unique_lock caller(pool().callers, std::defer_lock);
  if (count <= 1 || wanted == 1 || inside_task || !caller.try_lock()) {
    for (int64_t index = 0; index < count; ++index) task(index);
    return;
  }
  pool().resize(wanted - 1);
  Job job{.task = task, .count = count};
  pool().run(job);
  if (job.failed.load()) std::rethrow_exception(job.error);
}

}  // namespace attend
