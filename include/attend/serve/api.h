#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "attend/inspect/document.h"
#include "attend/serve/training_feed.h"

// The API of the web page, independent of HTTP. docs/inspect-format.md describes the requests and responses.
namespace attend {

struct ApiRequest {
  std::string method = "GET";
  std::string path;                          ///< URL-decoded, without the query
  std::map<std::string, std::string> query;  ///< URL-decoded
  std::string body;
};

/// Sends a piece of a streamed response. Returns false if the client has disconnected.
using SendPiece = std::function<bool(std::string_view piece)>;

struct ApiResponse {
  int status = 200;
  std::string type = "application/json";
  std::string body;
  std::map<std::string, std::string> headers;
  std::function<void(const SendPiece&)> stream;  ///< if set, sends the response instead of `body`
};

struct ApiOptions {
  std::string version;
  std::string page;         ///< the web page, compressed with gzip; if empty, a one-line message is served instead
  int64_t longest = 16384;  ///< maximum tokens per text
  size_t most_runs = 32;    ///< maximum number of stored runs; the oldest are removed first
  int64_t most_run_bytes = int64_t{1} << 31;  ///< maximum total size of stored runs
  int most_waiting = 8;                       ///< maximum requests waiting for the model; more get status 503
  int most_figures = 12;  ///< maximum requests waiting for figures of a run, computed one at a time; more get 503
  int most_streams = 6;   ///< maximum open streams; more get 503
};

/// Handles requests of the web page. Thread-safe. Forward passes run one at a time. Responses with a stream must not
/// outlive the Api.
class Api {
 public:
  Api(std::vector<InspectedModel> models, ApiOptions options);
  ~Api();

  /// Handles a request. Never throws: errors have a status of at least 400 and the body {"error": "one line"}.
  ApiResponse handle(const ApiRequest& request);
  /// Sets the training of a model for /api/training; null: none. Only the first model may be in training.
  void set_training(size_t index, std::shared_ptr<TrainingFeed> feed);
  /// Replaces a model by a further trained version, which later forward passes use.
  void replace_model(size_t index, std::shared_ptr<const Model> model);
  /// Ends all streams. Call it before the server stops.
  void close();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace attend
