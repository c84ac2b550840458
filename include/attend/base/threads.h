#pragma once

#include <cstdint>
#include <type_traits>

namespace attend {

/// How many threads parallel work may use: at first ATTEND_THREADS (1 to 1024, or Error), or the hardware's number.
int threads();
/// Throws ShapeError unless 1 <= count <= 1024.
void set_threads(int count);

/// The calling thread's place among those that share parallel work: 0 for the caller, then the workers.
int worker_place();

/// Memory that a worker may bring into its cache while it waits for work; what was set before is forgotten. It is asked
/// for, never read, and so it may have been freed. Only the caller of parallel work may set it.
void set_idle_memory(int worker, const void* begin, int64_t bytes);

/// A non-owning reference to a callable taking a task index.
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

/// Runs task(0) … task(count-1), in any order and on any thread, and returns when all are done. Work must be cut into
/// tasks by shape alone, never by thread count, so that results are the same bits on any number of threads. Nested and
/// concurrent calls run on the calling thread. The first exception a task throws is rethrown here.
void run_tasks(int64_t count, TaskRef task);

template <class F>
void parallel_for(int64_t count, F&& task) {
  run_tasks(count, TaskRef(task));
}

/// Runs body(begin, end) over [0, count) in pieces of `grain`.
template <class F>
void parallel_ranges(int64_t count, int64_t grain, F&& body) {
  if (grain < 1) grain = 1;
  parallel_for((count + grain - 1) / grain, [&](int64_t piece) {
    const int64_t begin = piece * grain;
    body(begin, begin + grain < count ? begin + grain : count);
  });
}

}  // namespace attend
