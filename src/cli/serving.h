#pragma once

#include <memory>
#include <string>
#include <vector>

#include "attend/inspect/document.h"
#include "attend/serve/model_api.h"
#include "attend/serve/server.h"
#include "attend/serve/training_feed.h"
#include "cli/shared_options.h"

// What `attend serve` and `attend view` share.
namespace attend::cli {

/// An opened model, for the page and for the API. Both use the same weights.
struct ServingModel {
  InspectedModel inspected;
  ServedModel served;
  std::shared_ptr<TrainingFeed> training;  ///< null if the folder has no record of its training
};

/// Opens MODEL, which is FOLDER or NAME=FOLDER.
ServingModel open_serving(const std::string& argument, const WeightOptions& weights, Device device);

/// Serves until a signal arrives. Then requests in progress have `drain_seconds` to finish; those that take longer get
/// an error. A forward pass cannot be interrupted: two seconds later, exits without waiting for it.
struct ServingLimits {
  int64_t drain_seconds = 0;
};
void serve_until_signal(Server& server, ModelApi& models, const std::atomic<bool>& stop, const ServingLimits& limits);

}  // namespace attend::cli
