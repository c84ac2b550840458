#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "attend/backend/devices.h"
#include "attend/models/model.h"
#include "attend/train/objective.h"
#include "attend/train/options.h"

namespace attend {

/// The contents of a log line.
struct StepReport {
  int64_t step = 0, steps = 0;
  double epoch = 0;
  double loss = 0;  ///< mean loss since the last report
  double lr = 0;
  double gradient_norm = 0;
  double tokens_per_second = 0;  ///< without padding; for pairs, target tokens
  double seconds = 0;            ///< training time so far, over all runs
  double seconds_left = 0;
};

struct ValidationReport {
  int64_t step = 0;
  Evaluation result;
  bool is_best = false;
  double seconds = 0;
  std::vector<Sample> samples;
};

/// Callbacks. All may be empty.
struct TrainingObserver {
  std::function<void()> started;                    ///< after the checkpoint was read, before the first step
  std::function<void(const StepReport&)> step;      ///< for each log line
  std::function<void(const StepReport&)> progress;  ///< interim report: soon after the first step, then every second
  std::function<void(int64_t)> stepped;             ///< after each step, with its number
  std::function<void(const ValidationReport&)> validation;
  std::function<void(const std::string&)> note;
};

struct TrainingOutcome {
  enum class End { finished, stopped_early, interrupted };
  End end = End::finished;
  int64_t step = 0, steps = 0;  ///< number of steps so far; total number of steps
  int64_t made_now = 0;         ///< number of steps in this run; 0 if training had finished before
  DeviceCounters gpu;           ///< what the steps of this run did on a GPU; all 0 on the CPU
  double seconds = 0;
  double tokens_per_second = 0;
  /// Of several processes: seconds in which this one exchanged gradients, and those of them in which its computation
  /// waited for the exchange.
  double exchange_seconds = 0, exposed_seconds = 0;
  double waited_seconds = 0;  ///< seconds in which this process waited for the gradients of slower ones
  /// The same for the keys and values of divided sequences: see TrainingOptions::context_parallel.
  double ring_seconds = 0, ring_exposed_seconds = 0;
  Evaluation result;      ///< evaluation of the saved model
  int64_t best_step = 0;  ///< step of the saved model; with averaging, the last step
};

/// Trains the model of a folder; continues from its checkpoint if there is one.
///
/// Processes that a launcher started divide the batches of each update among themselves. The first one writes the
/// folder. The weights have the same bits for any number of processes. With the option context_parallel, groups of
/// processes also divide each sequence; then the weights agree up to rounding.
///
/// The folder always has a complete model: the one with the best validation result so far or, at the end, the average
/// of the last checkpoints if averaging is on. checkpoint.safetensors has the state to continue training with bitwise
/// identical results. training.jsonl has a line for each report, and loss.svg the loss curve.
class Trainer {
 public:
  Trainer(Model& model, const Objective& objective, const TrainingOptions& options, std::string folder);

  /// Runs the training. Setting `stop` to true ends it after the current step, with a checkpoint. Throws Error if the
  /// loss becomes NaN or infinite, or a file cannot be written.
  TrainingOutcome run(const TrainingObserver& observer = {}, const std::atomic<bool>* stop = nullptr);

  int64_t steps() const { return steps_; }  ///< total number of steps

 private:
  Model& model_;
  const Objective& objective_;
  TrainingOptions options_;
  std::string folder_;
  int64_t steps_ = 0;
};

}  // namespace attend
