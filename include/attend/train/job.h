#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>

#include "attend/train/dataset.h"
#include "attend/train/trainer.h"

namespace attend {

class FolderLock;
class LocalCopy;

/// The description of a training: model, data and options.
struct TrainingJob {
  std::string architecture;
  std::string preset = "tiny";
  std::map<std::string, std::string> model;  ///< model settings, as on the command line
  std::string from;                          ///< model folder whose weights and vocabulary to start from; may be empty
  std::string task;                          ///< task of that folder to train; see LoadedModel::tasks
  DatasetOptions data;
  TrainingOptions training;
};

/// A model folder that is being trained: token ids, weights and options. Only one process at a time may use a folder:
/// create() and open() throw Error while another process does. They also remove temporary files of killed processes.
class TrainingFolder {
 public:
  /// Creates a folder atomically and prepares the training. Throws Error if `folder` exists and is not empty, unless
  /// `overwrite` is set. Throws SettingError for inconsistent settings.
  static TrainingFolder create(const TrainingJob& job, const std::string& folder, bool overwrite,
                               const Progress& progress = {});
  /// Opens an existing folder to continue from its checkpoint. `settings` override training options. Throws Error if
  /// there is no checkpoint, and SettingError for invalid settings, among them fewer steps than were made.
  static TrainingFolder open(const std::string& folder, const std::map<std::string, std::string>& settings = {});
  /// Opens an existing folder to look at it, also while another process trains it. Takes no lock and changes nothing;
  /// run() must not be called.
  static TrainingFolder read(const std::string& folder);
  /// Of several processes, the first one creates or opens the folder and calls share(); then the others open it with
  /// join(). Processes that do not see the folder get a copy. join() takes no lock and changes nothing. Collective.
  void share();
  static TrainingFolder join(const std::string& folder);

  const Model& model() const { return *model_; }
  const Dataset& data() const { return data_; }
  const TrainingOptions& training() const { return options_; }
  int64_t steps() const;  ///< total number of steps
  /// The step of the checkpoint in the folder.
  int64_t saved_step() const;
  /// Moves the model to a device, which trains it. A training that began on one device can be resumed on another.
  void to(Device device) { model_->to(device); }
  /// Trains the model; see Trainer::run.
  TrainingOutcome run(const TrainingObserver& observer = {}, const std::atomic<bool>* stop = nullptr);

 private:
  std::string folder_;
  std::unique_ptr<Model> model_;
  Dataset data_;
  TrainingOptions options_;
  bool has_new_options_ = false;
  std::shared_ptr<const FolderLock> lock_;
  std::shared_ptr<const LocalCopy> copy_;  // of processes that do not see the folder
};

}  // namespace attend
