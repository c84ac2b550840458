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
  double tokens = 0;   ///< number of tokens in the mean loss
  double counted = 0;  ///< number of tokens in the speed
  double seconds = 0;
};

/// The training state, besides the parameters and the optimiser's moments.
struct TrainingState {
  int64_t step = 0;
  uint64_t random = 0;  ///< number of random streams used
  /// The best score of all validations; larger is better.
  double best = -std::numeric_limits<double>::infinity();
  int64_t best_step = -1;
  int64_t stale = 0;  ///< validations since the best one
  double seconds = 0;
  double tokens = 0;  ///< number of tokens in the speed
  ReportWindow window;
};

/// Writes one file atomically: after a crash it is either the new checkpoint or the old one. Collective; the first
/// process writes the file. If the optimizer's state is divided among processes, each writes its part to a file of its
/// own before that, in the same folder, which all processes must see.
void write_checkpoint(const std::string& path, const Model& model, const Updater& updater, const TrainingState& state);
/// Loads the model and the updater. Empty if the file does not exist. Throws FormatError, naming the file, if it is
/// damaged.
std::optional<TrainingState> read_checkpoint(const std::string& path, const Model& model, Updater& updater);
/// The step of a checkpoint. Throws FormatError if the file is missing or damaged.
int64_t checkpoint_step(const std::string& path);

/// The parameters at the last few validations, one file each, for averaging.
class Snapshots {
 public:
  Snapshots(std::string folder, int64_t keep) : folder_(std::move(folder)), keep_(keep) {}
  void add(const Model& model, int64_t step);
  void forget_after(int64_t step);  ///< drops files of later steps, when resuming from an older checkpoint
  int64_t count() const;
  /// Sets the model's parameters to the mean of all files, computed in double precision.
  void average_into(const Model& model) const;

 private:
  std::vector<std::string> files() const;  // sorted by step
  std::string folder_;
  int64_t keep_;
};

}  // namespace attend
