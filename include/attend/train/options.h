#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "attend/models/settings.h"
#include "attend/ops/precision.h"

namespace attend {

enum class OptimizerKind { adam, adamw, sgd };
enum class ScheduleKind { constant, linear, cosine, noam };
enum class StopMetric { loss, bleu };
constexpr std::array<std::string_view, 3> names_of(OptimizerKind) { return {"adam", "adamw", "sgd"}; }
constexpr std::array<std::string_view, 4> names_of(ScheduleKind) { return {"constant", "linear", "cosine", "noam"}; }
constexpr std::array<std::string_view, 2> names_of(StopMetric) { return {"loss", "bleu"}; }
constexpr std::array<std::string_view, 2> names_of(Precision) { return {"f32", "bf16"}; }
constexpr std::array<std::string_view, 2> former_names_of(Precision) { return {"float32", "bfloat16"}; }

/// Adam divides by 1 − beta.
constexpr double kMostBeta = 0.999999;

/// The largest learning rate: far beyond any that trains.
constexpr double kMostRate = 1e6;

/// How a model is trained. The names of the settings are those of the command line and of training.json.
struct TrainingOptions {
  int64_t steps = 0;
  double epochs = 0;
  int64_t batch_tokens = 4096;
  int64_t batch = 0;
  int64_t accumulate = 1;
  OptimizerKind optimizer = OptimizerKind::adam;
  double lr = 0;
  ScheduleKind schedule = ScheduleKind::noam;
  int64_t warmup = 0;
  double lr_end = 0;
  double momentum = 0.9;
  double beta1 = 0.9;
  double beta2 = 0.98;
  double weight_decay = 0;
  double clip = 1;
  double label_smoothing = 0;
  double masked = 0.15;
  Precision precision = Precision::f32;
  int64_t log_every = 50;
  int64_t validate_every = 0;
  int64_t average = 0;
  int64_t patience = 0;
  StopMetric stop_on = StopMetric::loss;
  int64_t samples = 3;
  int64_t seed = 1;

  static void settings(auto&& visit) {
    using T = TrainingOptions;
    visit("steps", &T::steps, "updates to make (0: as many as the epochs have)", 1e12);
    visit("epochs", &T::epochs, "times to go through the corpus, if no steps are given", 1e6);
    visit("batch_tokens", &T::batch_tokens, "tokens of a batch of sentences, padding included", 2147483648.0);
    visit("batch", &T::batch, "most sentences of a batch; for running text the windows of one", 1048576);
    visit("accumulate", &T::accumulate, "batches whose gradients make one update", 65536);
    visit("optimizer", &T::optimizer, "how gradients change the parameters");
    visit("lr", &T::lr, "learning rate at its peak (0: by the model's width)", kMostRate);
    visit("schedule", &T::schedule, "how the learning rate goes after the warm-up");
    visit("warmup", &T::warmup, "steps in which the learning rate rises", 1e12);
    visit("lr_end", &T::lr_end, "learning rate at the last step (linear and cosine)", kMostRate);
    visit("momentum", &T::momentum, "of sgd", 1);
    visit("beta1", &T::beta1, "of adam and adamw", kMostBeta);
    visit("beta2", &T::beta2, "of adam and adamw", kMostBeta);
    visit("weight_decay", &T::weight_decay, "how much matrices shrink at each step");
    visit("clip", &T::clip, "largest norm of the gradient (0: any)");
    visit("label_smoothing", &T::label_smoothing, "share of a label spread over all words", kMostDropout);
    visit("masked", &T::masked, "share of words held out in masked-word training", kMostDropout);
    visit("precision", &T::precision, "number format of matrix products");
    visit("log_every", &T::log_every, "steps between lines of the log");
    visit("validate_every", &T::validate_every, "steps between validations (0: an epoch, at most 500)");
    visit("average", &T::average, "average this many last checkpoints at the end");
    visit("patience", &T::patience, "stop after so many validations without a better one (0: never)");
    visit("stop_on", &T::stop_on, "what a better validation is");
    visit("samples", &T::samples, "examples to show at each validation");
    visit("seed", &T::seed, "of all randomness");
  }
};

/// What works for an architecture without tuning.
TrainingOptions default_training(std::string_view architecture);
/// The same for going on from a model that others trained on much more: a few rounds at a low rate, by its width.
TrainingOptions fine_tuning(std::string_view architecture);
/// The options as JSON text, and back; with_training replaces some by what a user wrote. Throw FormatError or Error
/// that names the setting.
std::string training_text(const TrainingOptions& options);
TrainingOptions training_from(const std::string& text);
TrainingOptions with_training(const TrainingOptions& options, const std::map<std::string, std::string>& settings);
std::vector<SettingInfo> training_settings();

}  // namespace attend
