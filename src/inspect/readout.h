#pragma once

#include <string>
#include <vector>

#include "attend/inspect/attribute.h"
#include "inspect/structure.h"

// The layers between the residual stream and the logits, run backwards with all scales frozen.
namespace attend {

using Row = std::vector<double>;

/// A linear form on the residual stream: Σ over places of slope · vector.
struct Form {
  std::vector<int64_t> places;
  std::vector<Row> slopes;  // one for each place
};

/// A matrix [rows, columns] of doubles, from a weight of any format.
struct Matrix {
  int64_t rows = 0, columns = 0;
  std::vector<double> values;

  explicit Matrix(const Tensor& weight);
  Row row(int64_t index) const;
  Row times_left(const Row& left) const;  ///< leftᵀ · matrix
};

double dot(const Row& a, const Row& b);
/// A parameter as a row; zeros of `size` if it is empty.
Row row_of(const Tensor& parameter, int64_t size);
/// The slope before the norm of a vector x, given the slope after it; the norm's scale is frozen at its value for x.
Row before_norm(const Norm& norm, const Row& x, const Row& slope);

/// The slope of the goal before the norm that may follow the last layer. Appends the constants on the way, as parts of
/// kind bias. `seen` has the run's activations.
Form readout_form(const Experiment& experiment, const ActivationRecorder& seen, const Goal& goal,
                  std::vector<LogitPart>& parts);

}  // namespace attend
