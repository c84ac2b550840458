#pragma once

#include <vector>

#include "attend/serve/model_api.h"
#include "serve/http/worker_pool.h"
#include "serve/model_routes.h"

namespace attend {

struct ModelApi::State {
  State(std::vector<ServedModel> models, const ModelApiOptions& options);

  /// Answers a request, later and from another thread. Never throws.
  void handle(HttpRequest request, Responder responder);

  RouteContext context;
  WorkerPool pool{4};  // parses and tokenizes requests

 private:
  void answer(const HttpRequest& request, Responder responder);
};

}  // namespace attend
