#include "serve/scheduler.h"

#include <algorithm>

#include "attend/base/error.h"
#include "attend/grammar/grammar.h"
#include "models/paged_decoding.h"
#include "serve/request_fields.h"

namespace attend {

struct Scheduler::Running {
  int64_t tokens = 0;
  int64_t sequences = 0;  // not finished
  bool has_failed = false;
  std::function<bool()> run;  // the rest of a computation
  std::function<bool()> is_wanted;
  std::function<void(std::exception_ptr)> on_failed;

  void fail(const std::exception_ptr& error) {
    if (!std::exchange(has_failed, true) && on_failed) on_failed(error);
  }
};

namespace {

/// Turns of the models on GPUs, in the order of their requests: while one captures a graph, no other may call kernels.
class Turns {
 public:
  void lock() {
    std::unique_lock lock(mutex_);
    const uint64_t own = next_++;
    changed_.wait(lock, [&] { return served_ == own; });
  }
  void unlock() {
    {
      const std::lock_guard lock(mutex_);
      ++served_;
    }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t next_ = 0, served_ = 0;
};

/// A turn for a model on this device; the CPU needs none.
std::unique_lock<Turns> turn_on(Device device) {
  static Turns turns;
  return device == kCpu ? std::unique_lock<Turns>() : std::unique_lock(turns);
}

}  // namespace

Scheduler::Scheduler(const ServedModel& model, const ModelApiOptions& options, ModelMetrics& metrics)
    : model_(model), options_(options), metrics_(metrics), engine_(new_engine()) {
  thread_ = std::thread([this] { run(); });
}

Scheduler::~Scheduler() { stop(); }

std::unique_ptr<Engine> Scheduler::new_engine() const {
  const ModelKind kind = model_.model->kind();
  if (kind != ModelKind::translation && kind != ModelKind::language) return nullptr;
  const PrecisionScope precision(model_.precision, model_.model->device());  // decides on the type of the cache
  const bool has_cache = has_keys_and_values(*model_.model);
  return std::make_unique<Engine>(*model_.model,
                                  EngineOptions{.cache_type = has_cache ? options_.cache_type : std::nullopt,
                                                .prompt_tokens = options_.prompt_tokens,
                                                .prompt_seconds = options_.prompt_seconds,
                                                .cache_bytes = options_.cache_bytes,
                                                .draft_tokens = options_.draft_tokens});
}

bool Scheduler::add(Job job) {
  {
    const std::lock_guard lock(mutex_);
    if (is_stopped_ || waiting_ >= options_.most_waiting) {
      ++metrics_.rejected;
      return false;
    }
    auto line = std::ranges::find(lines_, job.client, &Line::client);
    if (line == lines_.end()) line = lines_.insert(lines_.end(), {.client = job.client, .jobs = {}});
    line->jobs.push_back(std::move(job));
    metrics_.waiting = ++waiting_;
  }
  changed_.notify_one();
  return true;
}

void Scheduler::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

std::vector<Job> Scheduler::take_waiting() {
  std::vector<Job> jobs;
  int64_t tokens = tokens_;
  while (!lines_.empty()) {
    Line& line = lines_.front();
    const bool is_wanted = !line.jobs.front().is_wanted || line.jobs.front().is_wanted();
    const bool is_alone = jobs.empty() && running_.empty();
    if (is_wanted && !is_alone && tokens + line.jobs.front().tokens > options_.tokens_in_flight) break;
    if (is_wanted) {
      tokens += line.jobs.front().tokens;
      jobs.push_back(std::move(line.jobs.front()));
    } else {
      ++metrics_.cancelled;
    }
    line.jobs.pop_front();
    metrics_.waiting = --waiting_;
    if (line.jobs.empty()) {
      lines_.pop_front();
    } else {
      lines_.splice(lines_.end(), lines_, lines_.begin());
    }
  }
  return jobs;
}

void Scheduler::run() {
  const PrecisionScope precision(model_.precision, model_.model->device());
  for (;;) {
    std::vector<Job> fresh;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return is_stopped_ || !lines_.empty() || !running_.empty(); });
      if (is_stopped_) break;
      fresh = take_waiting();
    }
    const std::unique_lock<Turns> turn = turn_on(model_.model->device());
    compute();
    for (Job& job : fresh) start(std::move(job));
    step();
  }
  const auto stopped = std::make_exception_ptr(RequestError(503, "the server is stopping"));
  fail_all(stopped);
  std::list<Line> rest;
  {
    const std::lock_guard lock(mutex_);
    rest = std::move(lines_);
  }
  for (Line& line : rest) {
    for (Job& job : line.jobs) {
      if (job.on_failed) job.on_failed(stopped);
    }
  }
}

void Scheduler::start(Job job) {
  // Shared with the callbacks: if one sequence cannot be added, the engine still holds those before it.
  const auto running = std::make_shared<Running>(Running{.tokens = job.tokens,
                                                         .sequences = std::ssize(job.sequences),
                                                         .is_wanted = std::move(job.is_wanted),
                                                         .on_failed = std::move(job.on_failed)});
  running_.push_back(running);
  tokens_ += running->tokens;
  metrics_.running = std::ssize(running_);
  metrics_.tokens_in_flight = tokens_;
  try {
    if (job.run && job.run()) running->run = std::move(job.run);
    for (Sequence& sequence : job.sequences) {
      // The engine may not be used after an exception from a callback.
      sequence.on_step = [this, running, inner = std::move(sequence.on_step)](const SequenceStep& step) {
        bool goes_on = !running->has_failed && (!running->is_wanted || running->is_wanted());
        try {
          goes_on = goes_on && (!inner || inner(step));
        } catch (...) {
          running->fail(std::current_exception());
          goes_on = false;
        }
        metrics_.generated_tokens += 1;
        if (!goes_on) --running->sequences;
        return goes_on;
      };
      sequence.on_done = [running, inner = std::move(sequence.on_done)](std::vector<Hypothesis> best) {
        --running->sequences;
        try {
          if (inner) inner(std::move(best));
        } catch (...) {
          running->fail(std::current_exception());
        }
      };
      sequence.on_error = [running](const Error& error) {
        --running->sequences;
        const auto* format = dynamic_cast<const ConstraintError*>(&error);
        running->fail(format != nullptr ? std::make_exception_ptr(*format) : std::make_exception_ptr(error));
      };
      engine_->add(std::move(sequence));
    }
  } catch (...) {
    running->fail(std::current_exception());
    running->sequences = 0;
  }
}

/// Continues the computations of jobs without sequences.
void Scheduler::compute() {
  for (const auto& running : running_) {
    if (!running->run) continue;
    try {
      const bool is_wanted = !running->is_wanted || running->is_wanted();
      if (!is_wanted || !running->run()) running->run = nullptr;
    } catch (...) {
      running->run = nullptr;
      running->fail(std::current_exception());
    }
  }
}

void Scheduler::step() {
  try {
    if (engine_ && std::ranges::any_of(running_, [](const auto& one) { return one->sequences > 0; })) {
      engine_->step();
    }
  } catch (...) {  // damaged weights, or out of memory: no sequence of this batch can continue
    fail_all(std::current_exception());
    engine_ = new_engine();
  }
  for (auto it = running_.begin(); it != running_.end();) {
    const Running& one = **it;
    if (one.sequences > 0 || one.run) {
      ++it;
      continue;
    }
    if (one.is_wanted && !one.is_wanted()) ++metrics_.cancelled;
    tokens_ -= one.tokens;
    it = running_.erase(it);
  }
  metrics_.running = std::ssize(running_);
  metrics_.tokens_in_flight = tokens_;
  if (!engine_) return;
  const EngineCounters counters = engine_->counters();
  metrics_.cache_bytes = (counters.pages_used + counters.pages_idle) * counters.page_bytes;
  metrics_.reused_tokens = counters.reused_tokens;
  metrics_.drafted_tokens = counters.drafted_tokens;
  metrics_.accepted_tokens = counters.accepted_tokens;
}

void Scheduler::fail_all(const std::exception_ptr& error) {
  for (const auto& running : running_) {
    running->fail(error);
    running->sequences = 0;
    running->run = nullptr;
  }
}

}  // namespace attend
