#include "serve/scheduler.h"

#include <algorithm>
#include <chrono>

#include "attend/base/error.h"
#include "attend/grammar/grammar.h"
#include "models/paged_decoding.h"
#include "serve/request_fields.h"

namespace attend {

struct Scheduler::Running {
  int64_t tokens = 0;
  std::vector<Sequence> later{};  // sequences that start after the computation
  int64_t sequences = 0;          // not finished
  bool has_failed = false;
  std::function<Piece(int64_t)> run{};  // the rest of a computation
  std::function<bool()> wanted{};
  std::function<void(std::exception_ptr)> on_failed{};

  bool is_wanted() const { return !wanted || wanted(); }

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

// While no sequence waits, a part of a computation takes four times as long as a part of a prompt beside others, as in
// the engine. Its number of tokens is limited only for the sake of memory.
constexpr int64_t kMostAlone = 8192;

/// Memory of keys and values that a model takes when it starts: of 32 prompts of 128 tokens of GPT-2 124M, for example.
constexpr int64_t kWarmBytes = int64_t{256} << 20;

}  // namespace

Scheduler::Scheduler(const ServedModel& model, const ModelApiOptions& options, ModelMetrics& metrics)
    : model_(model),
      options_(options),
      metrics_(metrics),
      engine_(new_engine()),
      beside_(options.prompt_tokens, options.prompt_seconds),
      alone_(std::max(kMostAlone, options.prompt_tokens), 4 * options.prompt_seconds) {
  if (engine_) cache_size_ = {engine_->counters().pages_total, engine_->counters().page_bytes};
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
                                                .warm_bytes = kWarmBytes,
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
                                                         .later = std::move(job.sequences),
                                                         .run = std::move(job.run),
                                                         .wanted = std::move(job.is_wanted),
                                                         .on_failed = std::move(job.on_failed)});
  running_.push_back(running);
  tokens_ += running->tokens;
  metrics_.running = std::ssize(running_);
  metrics_.tokens_in_flight = tokens_;
  try {
    if (job.on_start) job.on_start();
    running->run ? computing_.push_back(running) : add_sequences(running);
  } catch (...) {
    running->fail(std::current_exception());
    running->sequences = 0;
    running->run = nullptr;
  }
}

void Scheduler::add_sequences(const std::shared_ptr<Running>& running) {
  std::vector<Sequence> sequences = std::move(running->later);
  running->sequences = std::ssize(sequences);
  for (Sequence& sequence : sequences) {
    sequence.is_wanted = [running] {
      if (!running->has_failed && running->is_wanted()) return true;
      --running->sequences;
      return false;
    };
    // The engine may not be used after an exception from a callback.
    sequence.on_step = [this, running, inner = std::move(sequence.on_step)](const SequenceStep& step) {
      bool goes_on = !running->has_failed && running->is_wanted();
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
}

/// One part of one computation. Computations take turns.
void Scheduler::compute() {
  std::erase_if(computing_, [](const auto& running) {
    if (running->run && running->is_wanted()) return false;
    running->run = nullptr;
    return true;
  });
  if (computing_.empty()) return;
  const auto running = computing_.front();
  try {
    compute_piece(running);
  } catch (...) {
    running->run = nullptr;
    running->sequences = 0;
    running->fail(std::current_exception());
  }
}

void Scheduler::compute_piece(const std::shared_ptr<Running>& running) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const bool is_alone = std::ranges::none_of(running_, [](const auto& one) { return one->sequences > 0; });
  const Piece piece = running->run(is_alone ? alone_.budget() : beside_.budget());
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  for (PromptPace* pace : {&beside_, &alone_}) pace->add(piece.tokens, 0, seconds);
  if (piece.is_done) {
    computing_.pop_front();
    running->run = nullptr;
    add_sequences(running);
  } else if (!piece.is_inside) {
    computing_.splice(computing_.end(), computing_, computing_.begin());
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
    if (!one.is_wanted()) ++metrics_.cancelled;
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
