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

/// A batch, ready to be learned from.
struct MicroBatch {
  int64_t tokens = 0;   ///< what the loss is a mean over: words to predict, or labels
  int64_t read = 0;     ///< tokens the model reads in all, without padding
  int64_t counted = 0;  ///< tokens of text that the speed of training counts; 0: as many as `tokens`
  std::function<Tensor(const ForwardPass&)> loss;
};

struct Evaluation {
  double loss = 0;  ///< mean negative log-likelihood, without smoothing
  int64_t tokens = 0;
  std::optional<double> accuracy, bleu, chrf;
};

/// What the model makes of a validation example.
struct Sample {
  std::string source, expected, output;
};

/// What is learned from what: batches in, a loss out.
class Objective {
 public:
  virtual ~Objective() = default;
  virtual int64_t batches_per_epoch() const = 0;
  /// Batch number `index`, counted over all epochs from 0: a function of the index alone.
  virtual MicroBatch batch(int64_t index) const = 0;
  /// On the validation set. With `text`, also what needs whole sentences to be written.
  virtual Evaluation evaluate(bool text) const = 0;
  virtual std::vector<Sample> samples(int64_t count) const = 0;
  virtual int64_t left_out() const { return 0; }  ///< training examples that are too long for the model
};

/// Chosen by the model's task and the data: translation, running text, classification, or masked words for an encoder
/// on plain text. Both must outlive the objective. Throws Error where they do not fit.
std::unique_ptr<Objective> make_objective(const Model& model, const Dataset& data, const TrainingOptions& options);

}  // namespace attend
