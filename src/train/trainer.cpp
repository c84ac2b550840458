#include "attend/train/trainer.h"

#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>
#include <optional>

#include "attend/autograd/autograd.h"
#include "attend/backend/devices.h"
#include "attend/models/registry.h"
#include "attend/models/setting_error.h"
#include "attend/ops/precision.h"
#include "attend/ops/shape.h"
#include "attend/optim/schedule.h"
#include "attend/tensor/creation.h"
#include "distributed/group.h"
#include "train/broadcast.h"
#include "train/checkpoint.h"
#include "train/context_batch.h"
#include "train/journal.h"
#include "train/training_step.h"
#include "train/updater.h"

namespace attend {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kCheckpointSeconds = 300;
constexpr int64_t kMostUnread = 256;  // steps whose losses and norms a GPU keeps before the host reads them
constexpr double kWidthRate = 0.25;   // a good peak for wide models is lower: 2e-3 at width 128, 3e-4 at 768

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// `lr` is the peak learning rate; if it is 0, Noam's formula gives the peak. A run no longer than the warm-up would
/// never reach the peak, so its warm-up is a tenth of the run.
Schedule schedule_of(const TrainingOptions& options, const Model& model, int64_t steps) {
  const int64_t warmup = options.warmup < steps ? options.warmup : steps / 10;
  if (options.schedule == ScheduleKind::noam) {
    const auto dim = static_cast<double>(model.dim());
    const auto asked = static_cast<double>(std::max<int64_t>(options.warmup, 1)),
               rise = static_cast<double>(std::max<int64_t>(warmup, 1));
    const double factor = options.lr > 0 ? options.lr * std::sqrt(dim * rise) : std::sqrt(rise / asked);
    return noam_schedule({.dim = model.dim(), .warmup = std::max<int64_t>(warmup, 1), .factor = factor});
  }
  Schedule schedule{.kind = Schedule::Kind::constant,
                    .lr = options.lr > 0 ? options.lr : kWidthRate / static_cast<double>(model.dim()),
                    .lr_end = options.lr_end,
                    .warmup = warmup,
                    .total = steps};
  if (options.schedule == ScheduleKind::linear) schedule.kind = Schedule::Kind::linear;
  if (options.schedule == ScheduleKind::cosine) schedule.kind = Schedule::Kind::cosine;
  return schedule;
}

TrainingStepOptions step_options(const TrainingOptions& options, const TrainingObserver& observer) {
  return {.precision = options.precision,
          .max_norm = options.clip > 0 ? options.clip : std::numeric_limits<double>::infinity(),
          .recompute = options.recompute,
          .order = options.reduce,
          .wire = options.wire,
          .group = &distributed::world(),
          .note = observer.note};
}

/// One call of Trainer::run: the training state and the data of reports.
class Run {
 public:
  Run(Model& model, const Objective& objective, const TrainingOptions& options, const std::string& folder,
      int64_t steps, const TrainingObserver& observer)
      : model_(model),
        objective_(objective),
        options_(options),
        folder_(folder),
        steps_(steps),
        observer_(observer),
        group_(distributed::world()),
        is_first_(group_.rank() == 0),
        parameters_(model.parameters()),
        updater_(parameters_, options),
        step_(parameters_, updater_, step_options(options, observer)),
        schedule_(schedule_of(options, model, steps)),
        snapshots_(folder + "/averages", options.average),
        journal_(folder),
        validate_every_(options.validate_every) {
    if (options.context_parallel > 1) {
      ring_ = group_.split(group_.rank() / static_cast<int>(options.context_parallel));
      part_.emplace(*ring_, model.context());
    }
    const int64_t epoch = std::max<int64_t>(1, objective.batches_per_epoch() / options.accumulate);
    if (validate_every_ == 0) validate_every_ = std::min<int64_t>(500, epoch);
    const auto found = read_checkpoint(checkpoint_path(), model_, updater_);
    const bool has_checkpoint = found.has_value();
    if (has_checkpoint) {
      state_ = *found;
      if (is_first_) snapshots_.forget_after(state_.step), journal_.forget_after(state_.step);
      const bool continues = state_.step > 0 && state_.step < steps_ && !is_stale();
      if (continues && observer_.note) observer_.note("Continuing from step " + std::to_string(state_.step));
    } else if (is_first_) {
      snapshots_.forget_after(-1);
      journal_.forget_after(-1);
    }
    first_step_ = state_.step;
    rng_ = {static_cast<uint64_t>(options.seed), state_.random};
    for (const auto& [name, parameter] : parameters_) zero_grad(parameter);
    // The model file will contain the best weights, so save the initial state as a checkpoint.
    if (!has_checkpoint) save_checkpoint();
  }

  TrainingOutcome run(const std::atomic<bool>* stop) {
    if (observer_.started) observer_.started();
    if (const int64_t count = objective_.left_out(); count > 0 && observer_.note) {
      observer_.note(std::to_string(count) + " examples are longer than the model's context and were skipped");
    }
    TrainingOutcome outcome;
    bool early = is_stale();  // true if the last process was killed right after its last validation
    while (state_.step < steps_ && !early) {
      const NextStep next = next_step(stop && *stop);
      if (next.stops) {
        save_checkpoint();
        outcome.end = TrainingOutcome::End::interrupted;
        fill(outcome);
        return outcome;
      }
      if (next.saves) save_checkpoint();
      one_step(next);
      if (observer_.stepped) observer_.stepped(state_.step);
      const bool last = state_.step == steps_;
      if (state_.step % options_.log_every == 0 || last) {
        report();
      } else {
        show_progress();
      }
      if (state_.step % validate_every_ == 0 || last) early = validate();
      if (options_.checkpoint_every > 0 && state_.step % options_.checkpoint_every == 0) save_checkpoint();
    }
    outcome.end = early ? TrainingOutcome::End::stopped_early : TrainingOutcome::End::finished;
    finish(outcome);
    return outcome;
  }

 private:
  std::string checkpoint_path() const { return folder_ + "/checkpoint.safetensors"; }

  /// Stops the training if a value is not finite: it could not recover. The folder keeps the best model and checkpoint.
  void require_finite(double value, const char* what) const {
    require<Error>(std::isfinite(value), "the ", what, " is not finite at step ", state_.step,
                   "; try a lower --lr. The model of step ", std::max<int64_t>(state_.best_step, 0), " is kept");
  }

  /// The batches of this process for the next step, and what all processes have agreed on.
  struct NextStep {
    std::vector<MicroBatch> batches;
    std::vector<int64_t> tokens;  // of each batch of the update, in all processes
    int64_t counted = 0;          // tokens of the update in the speed
    bool stops = false, saves = false;
  };

  /// Any process may ask to stop. The first one decides when to save, by its clock.
  NextStep next_step(bool stops) {
    NextStep next;
    const int64_t divided = options_.context_parallel, share = options_.accumulate * divided / group_.size(),
                  first = group_.rank() / divided * share;
    const bool is_late = options_.checkpoint_every == 0 && since(saved_) > kCheckpointSeconds;
    std::vector<int64_t> mine{stops, is_first_ && is_late};
    const auto start = Clock::now();
    for (int64_t i = 0; i < share; ++i) {
      MicroBatch whole = objective_.batch(state_.step * options_.accumulate + first + i);
      next.batches.push_back(part_ ? context_batch(std::move(whole), *part_) : std::move(whole));
      const MicroBatch& batch = next.batches.back();
      mine.push_back(batch.tokens);
      mine.push_back(batch.counted > 0 ? batch.counted : batch.tokens);
    }
    const std::vector<int64_t> all = distributed::all_gather(group_, mine);
    for (auto number = all.begin(); number != all.end();) {
      next.stops = *number++ != 0 || next.stops;
      next.saves = *number++ != 0 || next.saves;
      for (int64_t i = 0; i < share; ++i) {
        next.tokens.push_back(*number++);
        next.counted += *number++;
      }
    }
    add_seconds(since(start));
    return next;
  }

  /// One update with the gradient of the mean loss over all tokens of `accumulate` batches.
  void one_step(const NextStep& next) {
    const auto start = Clock::now();
    const DeviceCounters before = device_counters();
    Unread unread{.step = state_.step + 1};
    for (const int64_t tokens : next.tokens) unread.tokens.push_back(static_cast<double>(tokens));
    const double tokens = std::accumulate(unread.tokens.begin(), unread.tokens.end(), 0.0);
    ++state_.step;
    const Tensor values = step_.run(next.batches, schedule_.at(state_.step), rng_, next.tokens);
    if (!results_) results_ = empty({kMostUnread, values.dim(0)}, {DType::f64, values.device()});
    copy_values(values, select(results_, 0, std::ssize(unread_)));
    unread_.push_back(std::move(unread));
    add_counters(before);
    if (model_.device() == kCpu || std::ssize(unread_) == kMostUnread) read_values();
    state_.tokens += static_cast<double>(next.counted);
    state_.window.tokens += tokens;
    state_.window.counted += static_cast<double>(next.counted);
    add_seconds(since(start));
  }

  /// Adds what a GPU has done since `before` to the counts of this run's steps.
  void add_counters(const DeviceCounters& before) {
    const DeviceCounters now = device_counters();
    gpu_.launches += now.launches - before.launches;
    gpu_.graph_launches += now.graph_launches - before.graph_launches;
    gpu_.synchronizations += now.synchronizations - before.synchronizations;
  }

  void add_seconds(double seconds) {
    state_.seconds += seconds;
    state_.window.seconds += seconds;
  }

  /// Reads the losses and norms of the steps since the last call from the device, which finishes these steps first. On
  /// a GPU a step reads nothing back by itself. A step whose norm is not finite has changed nothing.
  void read_values() {
    if (unread_.empty()) return;
    const auto start = Clock::now();
    const DeviceCounters before = device_counters();
    const std::vector<Unread> steps = std::exchange(unread_, {});
    const std::vector<double> read = slice(results_, 0, 0, std::ssize(steps)).to_vector<double>();
    add_counters(before);
    const auto check = [&](const Unread& step, double value, const char* what) {
      require<Error>(std::isfinite(value), "the ", what, " is not finite at step ", step.step,
                     "; try a lower --lr. The model of step ", std::max<int64_t>(state_.best_step, 0), " is kept");
    };
    auto next = read.begin();
    for (const Unread& step : steps) {
      for (const double tokens : step.tokens) {
        check(step, *next, "loss");
        state_.window.weighted_loss += *next++ * tokens;
      }
      norm_ = std::sqrt(*next);
      check(step, *next++, "gradient");
    }
    if (model_.device() != kCpu) add_seconds(since(start));
  }

  StepReport report_so_far() const {
    const ReportWindow& window = state_.window;
    return {
        .step = state_.step,
        .steps = steps_,
        .epoch = static_cast<double>(state_.step * options_.accumulate) /
                 static_cast<double>(objective_.batches_per_epoch()),
        .loss = window.weighted_loss / std::max(window.tokens, 1.0),
        .lr = schedule_.at(state_.step),
        .gradient_norm = norm_,
        .tokens_per_second = window.seconds > 0 ? window.counted / window.seconds : 0,
        .seconds = state_.seconds,
        .seconds_left = static_cast<double>(steps_ - state_.step) * state_.seconds / static_cast<double>(state_.step)};
  }

  void report() {
    read_values();
    const StepReport report = report_so_far();
    state_.window = {};
    if (is_first_) journal_.add(report);
    if (observer_.step) observer_.step(report);
    told_ = Clock::now();
  }

  /// Shows progress once a second; the first time already after 0.4 seconds.
  void show_progress() {
    if (!observer_.progress || since(told_) < (has_shown_ ? 1.0 : 0.4)) return;
    read_values();
    observer_.progress(report_so_far());
    told_ = Clock::now();
    has_shown_ = true;
  }

  /// Validates, and saves the model if it is the best so far. Returns true if the last `patience` validations brought
  /// no improvement.
  bool validate() {
    read_values();
    const auto start = Clock::now();
    const bool by_bleu = options_.stop_on == StopMetric::bleu;
    ValidationReport report{.step = state_.step, .result = objective_.evaluate(by_bleu)};
    require_finite(report.result.loss, "validation loss");
    const double score = by_bleu && report.result.bleu ? *report.result.bleu : -report.result.loss;
    report.is_best = score > state_.best;
    if (report.is_best) {
      state_.best = score, state_.best_step = state_.step, state_.stale = 0;
      if (is_first_) save_model(model_, folder_);
    } else {
      ++state_.stale;
    }
    if (is_first_) report.samples = objective_.samples(options_.samples);
    report.seconds = since(start);
    if (options_.average > 0 && is_first_) snapshots_.add(model_, state_.step);
    if (is_first_) journal_.add(report);
    save_checkpoint();
    if (observer_.validation) observer_.validation(report);
    return is_stale();
  }

  bool is_stale() const { return options_.patience > 0 && state_.stale >= options_.patience; }

  void save_checkpoint() {
    read_values();
    state_.random = rng_.next;
    write_checkpoint(checkpoint_path(), model_, updater_, state_);
    if (is_first_) draw();
    saved_ = Clock::now();
  }

  /// Draws the loss curve. A failure is reported once and does not stop the training.
  void draw() {
    try {
      journal_.draw();
    } catch (const Error& error) {
      if (!has_curve_failed_ && observer_.note) {
        observer_.note(std::string("Cannot draw the loss curve: ") + error.what());
      }
      has_curve_failed_ = true;
    }
  }

  void fill(TrainingOutcome& outcome) const {
    outcome.step = state_.step;
    outcome.steps = steps_;
    outcome.made_now = state_.step - first_step_;
    outcome.gpu = gpu_;
    outcome.seconds = state_.seconds;
    outcome.tokens_per_second = state_.seconds > 0 ? state_.tokens / state_.seconds : 0;
    outcome.best_step = state_.best_step;
    outcome.exchange_seconds = step_.exchange_times().busy;
    outcome.exposed_seconds = step_.exchange_times().exposed;
    outcome.waited_seconds = step_.exchange_times().waited;
    if (part_) outcome.ring_seconds = part_->times().busy, outcome.ring_exposed_seconds = part_->times().exposed;
  }

  /// Saves the averaged model in place of the best one, if averaging is on, and evaluates the result.
  void finish(TrainingOutcome& outcome) {
    fill(outcome);
    const bool averages = options_.average > 0 && agreed(is_first_ && snapshots_.count() > 0);
    if (averages) outcome.best_step = state_.step;
    if (is_first_) take_final_weights(averages);
    broadcast_weights(group_, parameters_);
    outcome.result = objective_.evaluate(true);
    const bool by_bleu = options_.stop_on == StopMetric::bleu && outcome.result.bleu;
    if (outcome.best_step != state_.best_step && observer_.note &&
        (by_bleu ? *outcome.result.bleu : -outcome.result.loss) < state_.best) {
      observer_.note("The average is worse than step " + std::to_string(state_.best_step) +
                     "; try more steps between validations, or no averaging");
    }
    if (is_first_) journal_.add(outcome), draw();
  }

  /// The value of the first process.
  bool agreed(bool value) { return distributed::broadcast(group_, value ? "1" : "") == "1"; }

  void take_final_weights(bool averages) {
    if (averages) {
      if (observer_.note) {
        observer_.note("Averaging the last " + std::to_string(snapshots_.count()) + " checkpoints");
      }
      snapshots_.average_into(model_);
      save_model(model_, folder_);
      return;
    }
    const auto best = load_model(folder_);
    std::map<std::string, Tensor> values;
    for (const auto& [name, tensor] : best->parameters()) values[name] = tensor;
    load_values(parameters_, values);
  }

  Model& model_;
  const Objective& objective_;
  const TrainingOptions& options_;
  std::string folder_;
  int64_t steps_;
  const TrainingObserver& observer_;
  distributed::Group& group_;
  bool is_first_;  // whether this process writes files
  std::vector<NamedTensor> parameters_;
  Updater updater_;
  TrainingStep step_;
  Schedule schedule_;
  Snapshots snapshots_;
  Journal journal_;
  int64_t validate_every_;
  std::unique_ptr<distributed::Group> ring_;  // the processes that divide a sequence
  std::optional<ContextPart> part_;
  TrainingState state_;
  Rng rng_;
  double norm_ = 0;
  /// A step whose losses and squared gradient norm are still on the device.
  struct Unread {
    int64_t step = 0;
    std::vector<double> tokens;  // of each batch
  };
  std::vector<Unread> unread_;
  Tensor results_;  // f64 [kMostUnread, batches + 1], on the model's device: the results of the steps in unread_
  DeviceCounters gpu_;
  int64_t first_step_ = 0;  // the step at which this process started
  bool has_shown_ = false, has_curve_failed_ = false;
  Clock::time_point saved_ = Clock::now(), told_ = saved_;
};

}  // namespace

Trainer::Trainer(Model& model, const Objective& objective, const TrainingOptions& options, std::string folder)
    : model_(model), objective_(objective), options_(options), folder_(std::move(folder)) {
  require<SettingError>(options.accumulate >= 1, "'accumulate' must be at least 1, got ", options.accumulate);
  const int processes = distributed::world().size();
  check_context_parallel(model, options, processes);
  const int64_t groups = processes / options.context_parallel;
  require<SettingError>(options.accumulate % groups == 0, "an update of ", options.accumulate,
                        " batches cannot be divided among ", groups,
                        groups == processes ? " processes: use another number of processes, or change 'accumulate'"
                                            : " groups of processes: change their number, or 'accumulate'");
  require<SettingError>(options.log_every >= 1, "'log_every' must be at least 1, got ", options.log_every);
  require<SettingError>(options.stop_on != StopMetric::bleu || model.kind() == ModelKind::translation,
                        "'stop_on' must be loss for architecture ", model.architecture(), ", which has no BLEU");
  require<SettingError>(!options.recompute || !model.architecture().starts_with("rnn"),
                        "'recompute' applies only to Transformers, not to architecture ", model.architecture());
  steps_ = options.steps;
  if (steps_ == 0) {
    steps_ = static_cast<int64_t>(std::ceil(options.epochs * static_cast<double>(objective.batches_per_epoch()) /
                                            static_cast<double>(options.accumulate)));
  }
  require<SettingError>(steps_ >= 1, "expected 'steps' or 'epochs' above 0");
}

TrainingOutcome Trainer::run(const TrainingObserver& observer, const std::atomic<bool>* stop) {
  require_precision(options_.precision, model_.device());
  require<SettingError>(options_.context_parallel == 1 || model_.device() == kCpu,
                        "'context_parallel' needs the CPU, but the model is on ", model_.device());
  return Run(model_, objective_, options_, folder_, steps_, observer).run(stop);
}

}  // namespace attend
