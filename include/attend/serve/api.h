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

// What the page asks for, without HTTP: requests in, responses out. docs/inspect-format.md describes them.
namespace attend {

struct ApiRequest {
  std::string method = "GET";
  std::string path;                          ///< decoded, without the query
  std::map<std::string, std::string> query;  ///< decoded
  std::string body;
};

/// Passes on a piece of a streamed response; false: nobody listens any more.
using SendPiece = std::function<bool(std::string_view piece)>;

struct ApiResponse {
  int status = 200;
  std::string type = "application/json";
  std::string body;
  std::map<std::string, std::string> headers;
  std::function<void(const SendPiece&)> stream;  ///< instead of a body
};

struct ApiOptions {
  std::string version;
  std::string page;         ///< packed by gzip; empty: a line that says there is none
  int64_t longest = 16384;  ///< most tokens of a text
  size_t most_runs = 32;    ///< runs that are remembered: so many, or so many bytes
  int64_t most_run_bytes = int64_t{1} << 31;
  int most_waiting = 8;   ///< requests that wait for the model; more get 503
  int most_figures = 12;  ///< requests that wait for figures of a run, which are computed one at a time; more get 503
  int most_streams = 6;   ///< that are open, or about to be; more get 503
};

/// Safe to use from many threads. Forward passes run one at a time. Responses with a stream must not outlive it.
class Api {
 public:
  Api(std::vector<InspectedModel> models, ApiOptions options);
  ~Api();

  /// Never throws: what is wrong with a request is a status from 400 on and {"error": "one line"}.
  ApiResponse handle(const ApiRequest& request);
  /// What /api/training tells.
  void set_training(std::shared_ptr<TrainingFeed> feed);
  /// Later passes use this model: the same one, further trained.
  void replace_model(size_t index, std::shared_ptr<const Model> model);
  /// Ends streams; call it before the server stops.
  void close();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace attend
