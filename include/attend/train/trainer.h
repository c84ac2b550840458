#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "attend/models/model.h"
#include "attend/train/objective.h"
#include "attend/train/options.h"

namespace attend {

/// A line of the log.
struct StepReport {
  int64_t step = 0, steps = 0;
  double epoch = 0;
  double loss = 0;  ///< mean since the last report
  double lr = 0;
  double gradient_norm = 0;
  double tokens_per_second = 0;  ///< of text, without padding; of pairs the target's
  double seconds = 0;            ///< of training so far, over all runs
  double seconds_left = 0;
};

struct ValidationReport {
  int64_t step = 0;
  Evaluation result;
  bool is_best = false;
  double seconds = 0;
  std::vector<Sample> samples;
};

/// Who wants to know. All may be empty.
struct TrainingObserver {
  std::function<void()> started;  ///< the checkpoint has been read; nothing has been learned yet
  std::function<void(const StepReport&)> step;
  std::function<void(const StepReport&)> progress;  ///< the report so far: soon after the first step, then every second
  std::function<void(int64_t)> stepped;             ///< after each update: its number
  std::function<void(const ValidationReport&)> validation;
  std::function<void(const std::string&)> note;
};

struct TrainingOutcome {
  enum class End { finished, stopped_early, interrupted };
  End end = End::finished;
  int64_t step = 0, steps = 0;  ///< updates made so far, and to make in all
  int64_t made_now = 0;         ///< of them by this run: none if training was over before
  double seconds = 0;
  double tokens_per_second = 0;
  Evaluation result;      ///< of the model that was saved
  int64_t best_step = 0;  ///< where it came from; with averaging the last step
};

/// Trains the model of a folder, from its checkpoint if it has one.
///
/// The folder always holds a whole model: the best on the validation set so far, at the end the average of the last
/// checkpoints where that was asked for. checkpoint.safetensors holds everything needed to go on as if never stopped,
/// bit for bit; training.jsonl a line for each report; loss.svg the curve.
class Trainer {
 public:
  Trainer(Model& model, const Objective& objective, const TrainingOptions& options, std::string folder);

  /// `stop`, once true, ends training after the step in progress, with a checkpoint. Throws Error if the loss is not
  /// finite any more, or if a file cannot be written.
  TrainingOutcome run(const TrainingObserver& observer = {}, const std::atomic<bool>* stop = nullptr);

  int64_t steps() const { return steps_; }  ///< in all

 private:
  Model& model_;
  const Objective& objective_;
  TrainingOptions options_;
  std::string folder_;
  int64_t steps_ = 0;
};

}  // namespace attend
