#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "attend/models/model.h"
#include "attend/train/dataset.h"
#include "attend/train/options.h"

namespace attend {

/// Integers that the loss of a batch reads: token ids, labels, lengths.
struct BatchInput {
  Tensor values;             ///< i64, on the host
  int64_t limit = 0;         ///< all values are in [0, limit)
  bool has_ignored = false;  ///< values may also be -100: labels that are ignored
};

/// A batch and its loss function.
struct MicroBatch {
  int64_t tokens = 0;   ///< number of predictions over which the loss is averaged: tokens or labels
  int64_t read = 0;     ///< number of tokens that the model reads, without padding
  int64_t counted = 0;  ///< number of tokens for the reported training speed; 0: same as `tokens`
  std::vector<BatchInput> inputs;
  /// The mean loss, from the values of `inputs` on the host or on the model's device. Everything in which batches of
  /// one objective differ must be in `inputs`: on a GPU, the kernels of one batch are launched again for other batches
  /// whose inputs have the same shapes.
  std::function<Tensor(const std::vector<Tensor>& inputs, const ForwardPass& pass)> loss;
};

struct Evaluation {
  double loss = 0;  ///< mean negative log-likelihood, without label smoothing
  int64_t tokens = 0;
  std::optional<double> accuracy, bleu, chrf;
};

/// A validation example and the model's output for it.
struct Sample {
  std::string source, expected, output;
};

/// The training objective: provides batches with their loss, and evaluates the model.
class Objective {
 public:
  virtual ~Objective() = default;
  virtual int64_t batches_per_epoch() const = 0;
  /// The batch with this index, counted over all epochs from 0. Depends only on the index.
  virtual MicroBatch batch(int64_t index) const = 0;
  /// Evaluates the model on the validation set. With `text`, also generates text for the metrics that need it.
  virtual Evaluation evaluate(bool text) const = 0;
  virtual std::vector<Sample> samples(int64_t count) const = 0;
  virtual int64_t left_out() const { return 0; }  ///< number of training examples that are too long for the model
};

/// Creates the objective for the kind of model and data: translation, language modelling, classification, or masked
/// language modelling for an encoder on plain text. `model` and `data` must outlive the objective. Throws Error if they
/// do not match.
std::unique_ptr<Objective> make_objective(const Model& model, const Dataset& data, const TrainingOptions& options);

}  // namespace attend
