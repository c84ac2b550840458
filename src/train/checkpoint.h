#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "attend/models/model.h"
#include "train/updater.h"

namespace attend {

/// Sums over the steps since the last report.
struct ReportWindow {
  double weighted_loss = 0;
  double tokens = 0;   ///< that the loss is a mean over
  double counted = 0;  ///< that the speed counts
  double seconds = 0;
};

/// All that changes while training, besides parameters and the optimiser's moments.
struct TrainingState {
  int64_t step = 0;
  uint64_t random = 0;  ///< streams drawn from the seed
  /// Of the validations so far: larger is better.
  double best = -std::numeric_limits<double>::infinity();
  int64_t best_step = -1;
  int64_t stale = 0;  ///< validations since
  double seconds = 0;
  double tokens = 0;  ///< that the speed counts
  ReportWindow window;
};

/// One file, so that it is whole or the one before.
void write_checkpoint(const std::string& path, const Model& model, const Updater& updater, const TrainingState& state);
/// Fills model and updater; nothing if there is no such file. Throws FormatError that names the file.
std::optional<TrainingState> read_checkpoint(const std::string& path, const Model& model, Updater& updater);

/// The last few parameters of a training run, a file each, for averaging.
class Snapshots {
 public:
  Snapshots(std::string folder, int64_t keep) : folder_(std::move(folder)), keep_(keep) {}
  void add(const Model& model, int64_t step);
  void forget_after(int64_t step);  ///< those of a run that is being resumed from before them
  int64_t count() const;
  /// The mean of all there are, in double precision, into the model.
  void average_into(const Model& model) const;

 private:
  std::vector<std::string> files() const;  // in the order of their steps
  std::string folder_;
  int64_t keep_;
};

}  // namespace attend
