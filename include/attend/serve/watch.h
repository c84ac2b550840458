#pragma once

#include <memory>
#include <string>

#include "attend/serve/server.h"
#include "attend/train/job.h"

namespace attend {

struct WatchOptions {
  ServerOptions server{};
  std::string version, page;  ///< as in ApiOptions
  std::string name;           ///< of the model
  std::string text;           ///< the sentence to follow; empty: a validation example
};

/// The page of a model while it is trained. What it shows is a copy of the model, made after a step: training itself
/// neither waits for the page nor changes by a bit.
class TrainingWatch {
 public:
  /// Throws Error as Server does.
  TrainingWatch(const TrainingFolder& folder, const WatchOptions& options);
  ~TrainingWatch();

  std::string address() const;
  /// Passes everything on to `inner`, and takes snapshots: often at first, then at each validation.
  TrainingObserver observer(TrainingObserver inner);
  /// Training has ended; the page stays until this is destroyed.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace attend
