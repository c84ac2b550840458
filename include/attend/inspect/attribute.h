#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "attend/inspect/experiment.h"

// Sharing a prediction out: over the parts of the model, and over the tokens of the input.
namespace attend {

/// A number that a model computes: the logit of a class at an output, or the difference of two logits.
struct Goal {
  int64_t output = -1;    ///< index of the output; -1: Experiment::usual_output()
  int64_t wanted = -1;    ///< class; -1: the most likely one
  int64_t contrast = -1;  ///< class whose logit is subtracted; -1: none
};
/// Replaces the defaults by what they stand for. Throws ShapeError if an index is out of range.
Goal resolved(const Experiment& experiment, Goal goal);
/// The goal's value [] of logits [rows, classes]; `row` is the row of the goal's output. Recorded for gradients.
Tensor goal_value(const Tensor& logits, int64_t row, const Goal& goal);

enum class PartKind { token, position, head, feed_forward, bias };
struct LogitPart {
  PartKind kind = PartKind::bias;
  std::string module;  ///< path of the module, "decoder.layers.0.attention"; empty for embeddings
  int64_t layer = -1;  ///< -1: embeddings, or the layers after the stack
  int64_t head = -1;
  double value = 0;
};

struct LogitParts {
  Goal goal;
  double value = 0;              ///< the goal's value in the run
  std::vector<LogitPart> parts;  ///< in the order of the pass
  double remainder = 0;          ///< value − the sum of the parts: rounding only
};

/// Direct logit attribution: the goal's value as a sum over token embedding, positions, heads, feed-forward networks
/// and biases. The residual stream is a sum, and all that follows is linear once the scale of every norm is frozen at
/// its value in this run (and, in a classifier's or masked-language-model's layers, the ratio of each activation's
/// output to its input). A norm after a branch scales everything before it. Throws Error for a recurrent model.
LogitParts logit_parts(const Experiment& experiment, const Goal& goal = {});

struct TokenOptions {
  Goal goal{};
  bool uses_zero = false;    ///< the baseline of integrated gradients is 0 instead of the average embedding
  int64_t most_steps = 512;  ///< maximum number of gradients, 8 to 4,096
  double tolerance = 0.01;   ///< stop once the completeness error is at most this
  OnSteps on_step{};
};

struct TokenAttribution {
  Goal goal;
  double value = 0;     ///< the goal's value in the run
  double baseline = 0;  ///< its value at the baseline
  /// For each side, for each token: gradient · embedding, and integrated gradients (Sundararajan et al. 2017), whose
  /// sum is value − baseline up to `error`.
  std::vector<std::vector<double>> gradient, integrated;
  double error = 0;  ///< |sum of integrated − (value − baseline)| / |value − baseline|
  int64_t steps = 0;
};

/// Attribution to the token embeddings, without positions, of all sides. The number of steps doubles until the error is
/// at most `tolerance`. Throws ShapeError if an option is out of range.
TokenAttribution attribute_tokens(const Experiment& experiment, const TokenOptions& options = {});

}  // namespace attend
