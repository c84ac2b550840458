#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>

#include "attend/train/dataset.h"
#include "attend/train/trainer.h"

namespace attend {

class FolderLock;

/// All that makes a model out of files.
struct TrainingJob {
  std::string architecture;
  std::string preset = "tiny";
  std::map<std::string, std::string> model;  ///< settings of the model, as a user writes them
  std::string from;                          ///< a model folder whose weights and vocabulary to start from
  std::string task;                          ///< which of that folder's tasks to go on with; see LoadedModel::tasks
  DatasetOptions data;
  TrainingOptions training;
};

/// A model folder in the making: training data as ids, weights and options. One process at a time may hold one: both
/// create and open throw Error while another does, and clear away what killed ones left behind.
class TrainingFolder {
 public:
  /// Prepares everything in a new folder, which appears under its name once it is whole. Throws Error if `folder` is
  /// there and not empty, unless `overwrite`; SettingError for settings that do not fit together.
  static TrainingFolder create(const TrainingJob& job, const std::string& folder, bool overwrite,
                               const Progress& progress = {});
  /// One that was created before, with its checkpoint; `settings` replace training options. Throws Error if there is no
  /// checkpoint to continue from, SettingError for settings that cannot be.
  static TrainingFolder open(const std::string& folder, const std::map<std::string, std::string>& settings = {});

  const Model& model() const { return *model_; }
  const Dataset& data() const { return data_; }
  const TrainingOptions& training() const { return options_; }
  int64_t steps() const;  ///< in all
  TrainingOutcome run(const TrainingObserver& observer = {}, const std::atomic<bool>* stop = nullptr);

 private:
  std::string folder_;
  std::unique_ptr<Model> model_;
  Dataset data_;
  TrainingOptions options_;
  bool has_new_options_ = false;
  std::shared_ptr<const FolderLock> lock_;
};

}  // namespace attend
