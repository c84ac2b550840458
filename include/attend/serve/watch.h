#pragma once

#include <memory>
#include <string>

#include "attend/serve/server.h"
#include "attend/train/job.h"

namespace attend {

struct WatchOptions {
  ServerOptions server{};
  std::string version, page;  ///< as in ApiOptions
  std::string name;           ///< name of the model
  std::string text;           ///< sentence to watch; empty: a validation example
};

/// Serves the web page of a model during training. The page shows a copy of the model, made after a step. Training does
/// not wait for the page, and its results are bitwise identical with and without the page.
class TrainingWatch {
 public:
  /// Throws Error as Server does.
  TrainingWatch(const TrainingFolder& folder, const WatchOptions& options);
  ~TrainingWatch();

  std::string address() const;
  /// An observer that calls `inner` and takes snapshots: often at first, then at each validation.
  TrainingObserver observer(TrainingObserver inner);
  /// Marks the training as finished. The page is served until this object is destroyed.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace attend
