#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "attend/serve/model_api.h"
#include "generate/engine.h"
#include "serve/metrics.h"

namespace attend {

/// The work of one request: sequences to generate, another computation with the model, or both. All functions are
/// called in the scheduler's thread.
struct Job {
  std::string client{};  ///< clients take turns
  int64_t tokens = 0;    ///< tokens that the sequences may have in all; see ModelApiOptions
  std::vector<Sequence> sequences{};
  /// A computation: before the sequences, or without them. True: call it again after the next step of the others.
  std::function<bool()> run{};
  std::function<bool()> is_wanted{};                    ///< false: nobody waits for the result any more
  std::function<void(std::exception_ptr)> on_failed{};  ///< called at most once
};

/// Runs the jobs of one model in a thread of its own. Jobs join and leave the running batch between steps.
class Scheduler {
 public:
  Scheduler(const ServedModel& model, const ModelApiOptions& options, ModelMetrics& metrics);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Adds a job. Returns false if the queue is full or the scheduler has stopped.
  bool add(Job job);
  void stop();  ///< fails all jobs and joins the thread

 private:
  struct Running;
  /// The waiting jobs of one client.
  struct Line {
    std::string client;
    std::deque<Job> jobs;
  };

  void run();
  /// The jobs that start now, in turn of their clients.
  std::vector<Job> take_waiting();
  void start(Job job);
  void compute();
  void step();
  void fail_all(const std::exception_ptr& error);
  std::unique_ptr<Engine> new_engine() const;

  const ServedModel& model_;
  ModelApiOptions options_;
  ModelMetrics& metrics_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Line> lines_;  // the front client's turn is next
  int64_t waiting_ = 0;
  bool is_stopped_ = false;
  // Used by the thread only:
  std::unique_ptr<Engine> engine_;
  std::list<std::shared_ptr<Running>> running_;
  int64_t tokens_ = 0;  // of the running jobs
  std::thread thread_;
};

}  // namespace attend
