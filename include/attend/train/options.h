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
/// The order in which the gradients of an update's batches are added.
enum class GradientOrder { tree, fast };
/// The type in which processes send gradients to each other.
enum class WireType { f32, bf16 };
/// What processes divide among themselves.
enum class ShardedState { none, optimizer };
constexpr std::array<std::string_view, 3> names_of(OptimizerKind) { return {"adam", "adamw", "sgd"}; }
constexpr std::array<std::string_view, 4> names_of(ScheduleKind) { return {"constant", "linear", "cosine", "noam"}; }
constexpr std::array<std::string_view, 2> names_of(StopMetric) { return {"loss", "bleu"}; }
constexpr std::array<std::string_view, 2> names_of(GradientOrder) { return {"tree", "fast"}; }
constexpr std::array<std::string_view, 2> names_of(WireType) { return {"f32", "bf16"}; }
constexpr std::array<std::string_view, 2> names_of(ShardedState) { return {"none", "optimizer"}; }
constexpr std::array<std::string_view, 3> names_of(Precision) { return {"f32", "tf32", "bf16"}; }
constexpr std::array<std::string_view, 3> former_names_of(Precision) { return {"float32", "tf32", "bfloat16"}; }

/// Largest beta1 and beta2. Adam divides by 1 − beta.
constexpr double kMostBeta = 0.999999;

/// Largest learning rate, far above any useful one.
constexpr double kMostRate = 1e6;

/// The training settings. Their names are the names on the command line and in training.json.
struct TrainingOptions {
  int64_t steps = 0;
  double epochs = 0;
  int64_t batch_tokens = 4096;
  int64_t batch = 0;
  int64_t accumulate = 1;  ///< over all processes
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
  bool recompute = false;
  int64_t log_every = 50;
  int64_t validate_every = 0;
  int64_t average = 0;
  int64_t patience = 0;
  StopMetric stop_on = StopMetric::loss;
  int64_t samples = 3;
  int64_t checkpoint_every = 0;
  GradientOrder reduce = GradientOrder::tree;
  WireType wire = WireType::f32;
  ShardedState shard = ShardedState::none;
  int64_t context_parallel = 1;
  int64_t seed = 1;

  static void settings(auto&& visit) {
    using T = TrainingOptions;
    visit("steps", &T::steps, "Number of optimizer steps (0: set by epochs)", 1e12);
    visit("epochs", &T::epochs, "Number of epochs, if steps is 0", 1e6);
    visit("batch_tokens", &T::batch_tokens, "Maximum tokens per batch of sentences, including padding", 2147483648.0);
    visit("batch", &T::batch, "Maximum sentences per batch (0: no limit); windows per batch for plain text", 1048576);
    visit("accumulate", &T::accumulate, "Number of batches per optimizer step and process", 1048576);
    visit("optimizer", &T::optimizer, "Optimizer");
    visit("lr", &T::lr, "Peak learning rate (0: computed from the model width)", kMostRate);
    visit("schedule", &T::schedule, "Learning rate schedule after the warm-up");
    visit("warmup", &T::warmup, "Number of warm-up steps", 1e12);
    visit("lr_end", &T::lr_end, "Learning rate at the last step (linear and cosine)", kMostRate);
    visit("momentum", &T::momentum, "Momentum (sgd)", 1);
    visit("beta1", &T::beta1, "Decay rate of the first moment (adam and adamw)", kMostBeta);
    visit("beta2", &T::beta2, "Decay rate of the second moment (adam and adamw)", kMostBeta);
    visit("weight_decay", &T::weight_decay, "Weight decay of matrices");
    visit("clip", &T::clip, "Maximum gradient norm (0: no clipping)");
    visit("label_smoothing", &T::label_smoothing, "Label smoothing", kMostDropout);
    visit("masked", &T::masked, "Fraction of tokens to predict in masked language modelling", kMostDropout);
    visit("precision", &T::precision,
          "Precision of matrix products, and with bf16 on a GPU of activations (tf32: only on a GPU)");
    visit("recompute", &T::recompute, "Recompute activations in the backward pass: slower, with less memory");
    visit("log_every", &T::log_every, "Steps between log lines");
    visit("validate_every", &T::validate_every, "Steps between validations (0: one epoch, at most 500 steps)");
    visit("average", &T::average, "Number of last checkpoints to average at the end (0: no averaging)");
    visit("patience", &T::patience, "Validations without improvement before training stops (0: no early stopping)");
    visit("stop_on", &T::stop_on, "Validation metric that selects the best model");
    visit("samples", &T::samples, "Number of examples to show at each validation");
    visit("checkpoint_every", &T::checkpoint_every, "Steps between checkpoints (0: five minutes)", 1e12);
    visit("reduce", &T::reduce,
          "Order of the sum of gradients: tree gives the same bits for any number of processes, fast leaves it to MPI");
    visit("wire", &T::wire, "Type of gradients between processes");
    visit("shard", &T::shard, "State that is divided among processes");
    visit("context_parallel", &T::context_parallel,
          "Number of processes that divide each sequence among themselves (gpt, on the CPU)", 1048576);
    visit("seed", &T::seed, "Random seed");
  }
};

/// The default options of an architecture.
TrainingOptions default_training(std::string_view architecture);
/// The default options for fine-tuning a pretrained model: a few epochs at a low learning rate, which depends on the
/// model's width.
TrainingOptions fine_tuning(std::string_view architecture);
/// The options as JSON text.
std::string training_text(const TrainingOptions& options);
/// Parses the JSON text of training_text. Throws a FormatError that names the setting.
TrainingOptions training_from(const std::string& text);
/// The options with some settings replaced; values are written as on the command line. Throws an Error that names the
/// setting.
TrainingOptions with_training(const TrainingOptions& options, const std::map<std::string, std::string>& settings);
std::vector<SettingInfo> training_settings();
/// Throws Error if the device does not support the precision.
void require_precision(Precision precision, Device device);

}  // namespace attend
