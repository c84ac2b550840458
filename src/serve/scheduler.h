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
#include "generate/prompt_pace.h"
#include "serve/metrics.h"

namespace attend {

/// A part of a computation.
struct Piece {
  int64_t tokens = 0;      ///< number of tokens that were read
  bool is_done = false;    ///< this was the last part
  bool is_inside = false;  ///< a text is partly read: the same computation gets the next turn
};

/// The work of one request: sequences to generate, another computation with the model, or both. All functions are
/// called in the scheduler's thread.
struct Job {
  std::string client{};  ///< clients take turns
  int64_t tokens = 0;    ///< tokens that the request holds at most; see ModelApiOptions
  std::vector<Sequence> sequences{};
  std::function<void()> on_start{};
  /// A computation: before the sequences, or without them. Each call reads about `tokens` tokens, or one text that the
  /// model cannot read in parts. Between two calls, the sequences of other jobs get their next tokens.
  std::function<Piece(int64_t tokens)> run{};
  std::function<bool()> is_wanted{};                    ///< false: nobody waits for the result any more
  std::function<void(std::exception_ptr)> on_failed{};  ///< called at most once
};

/// The memory for keys and values of a model.
struct CacheSize {
  int64_t pages = 0, page_bytes = 0;  ///< pages 0: no limit
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
  CacheSize cache_size() const { return cache_size_; }

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
  void add_sequences(const std::shared_ptr<Running>& running);
  void compute();
  void compute_piece(const std::shared_ptr<Running>& running);
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
  CacheSize cache_size_;  // set by the constructor
  // Used by the thread only:
  std::unique_ptr<Engine> engine_;
  std::list<std::shared_ptr<Running>> running_;
  std::list<std::shared_ptr<Running>> computing_;  // those with a computation; the front's turn is next
  PromptPace beside_, alone_;                      // of computations: while sequences wait, and while none does
  int64_t tokens_ = 0;                             // of the running jobs
  std::thread thread_;
};

}  // namespace attend
