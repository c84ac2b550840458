#pragma once

#include <cstdint>
#include <type_traits>

namespace attend {

/// Number of threads for parallel work. The default is the environment variable ATTEND_THREADS, or else the number of
/// hardware threads. Throws Error if ATTEND_THREADS is not a whole number from 1 to 1024.
int threads();
/// Throws ShapeError unless 1 <= count <= 1024.
void set_threads(int count);

/// Index of the calling thread in the thread pool: 0 outside the workers, 1 … threads() - 1 for the workers.
int worker_place();

/// Sets the memory range that a worker prefetches into its cache while it waits for work; replaces the previous range.
/// The worker prefetches addresses and never reads them, so the memory may be freed at any time. Has no effect inside a
/// task, while another thread runs parallel work, or for a worker that does not exist.
void set_idle_memory(int worker, const void* begin, int64_t bytes);

/// A non-owning reference to a callable that takes a task index.
class TaskRef {
 public:
  template <class F>
  TaskRef(F& task)  // NOLINT(google-explicit-constructor)
      : object_(const_cast<void*>(static_cast<const void*>(&task))),
        call_([](void* object, int64_t index) { (*static_cast<F*>(object))(index); }) {}
  void operator()(int64_t index) const { call_(object_, index); }

 private:
  void* object_;
  void (*call_)(void*, int64_t);
};

/// Runs task(0) … task(count-1), in any order and on any thread, and returns when all are done. Divide work into tasks
/// by shape alone, never by thread count, so that results are bitwise identical on any number of threads. Nested and
/// concurrent calls run on the calling thread. Rethrows the first exception that a task throws.
void run_tasks(int64_t count, TaskRef task);

/// run_tasks for a temporary callable.
template <class F>
void parallel_for(int64_t count, F&& task) {
  run_tasks(count, TaskRef(task));
}

/// Splits [0, count) into ranges of `grain` (at least 1) indices and runs body(begin, end) for each range in parallel.
template <class F>
void parallel_ranges(int64_t count, int64_t grain, F&& body) {
  if (grain < 1) grain = 1;
  parallel_for((count + grain - 1) / grain, [&](int64_t piece) {
    const int64_t begin = piece * grain;
    body(begin, begin + grain < count ? begin + grain : count);
  });
}

}  // namespace attend
