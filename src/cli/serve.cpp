#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <memory>
#include <set>

#include "attend/backend/devices.h"
#include "attend/base/error.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/page.h"
#include "cli/serving.h"
#include "cli/signals.h"
#include "cli/web_addresses.h"
#include "models/paged_decoding.h"

namespace attend::cli {
namespace {

constexpr const char* kServeExamples = R"(
Examples:
  attend serve shakespeare                            at http://127.0.0.1:8757/
  attend serve chat=qwen-chat en-de --port 9000       two models, one of them by another name
  attend serve novel --quantize int8 --host 0.0.0.0 --api-key-file keys
  curl http://127.0.0.1:8757/v1/completions -d '{"prompt": "从前", "max_tokens": 50}'

Serves models over HTTP: OpenAI's API (chat, completions, embeddings), translation, classification, /health, /metrics,
and the page of `attend view`. Requests run together in one batch for each model. By default only this machine can reach the
server. With --host, everyone who can reach that address can use the models; --api-key-file requires a key. Ctrl-C and
SIGTERM end the server after the requests in progress. docs/serving.md describes the requests.)";

constexpr int64_t kMebi = 1 << 20;

struct ServeArguments {
  std::vector<std::string> models;
  ServerOptions server;
  ModelApiOptions api;
  int64_t port = 8757, drain_seconds = 30, cache_mib = 0, prompt_milliseconds = 80;
  std::string key_file;
  WeightOptions weights;
  ComputeOptions compute;
  CacheOptions cache;
  DraftOptions draft;
  bool no_page = false;
  Option *port_option = nullptr, *prompt_option = nullptr;
};

/// One key per line, without the spaces around it; empty lines and lines that start with # are ignored.
std::vector<std::string> read_keys(const std::string& file) {
  std::ifstream in(file);
  require<Error>(static_cast<bool>(in), file, ": cannot read the file");
  std::vector<std::string> keys;
  for (std::string line; std::getline(in, line);) {
    constexpr const char* kSpaces = " \t\r\n\v\f";
    const size_t begin = line.find_first_not_of(kSpaces);
    if (begin == std::string::npos || line[begin] == '#') continue;
    keys.push_back(line.substr(begin, line.find_last_not_of(kSpaces) + 1 - begin));
  }
  require<Error>(!keys.empty(), file, ": there is no API key in this file");
  return keys;
}

/// Half of the device's free memory, for all models together.
int64_t usual_cache(size_t models, Device device) {
  const int64_t free = device == kCpu ? static_cast<int64_t>(sysconf(_SC_AVPHYS_PAGES)) * sysconf(_SC_PAGESIZE)
                                      : static_cast<int64_t>(device_info(device).free_memory);
  return std::max<int64_t>(free / 2 / static_cast<int64_t>(models), 64 * kMebi);
}

/// Each connection is an open file, and the usual limit is 1024.
void allow_many_connections() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

void run_serve(ServeArguments& arguments) {
  const Device device = use(arguments.compute);
  arguments.weights.packs = true;
  arguments.api.draft_tokens = arguments.draft.tokens(device);
  arguments.api.cache_type = arguments.cache.dtype();
  for (std::string& origin : arguments.server.cors_origins) origin = web_origin(origin);
  for (std::string& name : arguments.server.names) name = web_host(name);
  if (!arguments.key_file.empty()) arguments.server.api_keys = read_keys(arguments.key_file);
  std::vector<InspectedModel> inspected;
  std::vector<ServedModel> served;
  std::vector<std::shared_ptr<TrainingFeed>> training;
  std::set<std::string> names;
  for (size_t i = 0; i < arguments.models.size(); ++i) {
    std::cerr << "Loading " << arguments.models[i] << " (" << i + 1 << " of " << arguments.models.size() << ") …\n";
    ServingModel model = open_serving(arguments.models[i], arguments.weights, device);
    if (!names.insert(model.served.name).second) {
      throw UsageError("two models are named '" + model.served.name + "'; name one of them with NAME=FOLDER");
    }
    inspected.push_back(std::move(model.inspected));
    served.push_back(std::move(model.served));
    training.push_back(std::move(model.training));
  }
  const auto has_cache = [](const ServedModel& model) { return has_keys_and_values(*model.model); };
  if (arguments.api.cache_type && std::ranges::none_of(served, has_cache)) {
    throw UsageError("--cache has no effect: none of these models keeps keys and values");
  }
  arguments.api.version = ATTEND_VERSION;
  arguments.api.cache_bytes =
      arguments.cache_mib > 0 ? arguments.cache_mib * kMebi : usual_cache(served.size(), device);
  constexpr int64_t kGpuPromptTokens = 512;  // GPT-2 reads them in about 2 ms
  if (device != kCpu && arguments.prompt_option->count() == 0) arguments.api.prompt_tokens = kGpuPromptTokens;
  arguments.api.prompt_seconds = static_cast<double>(arguments.prompt_milliseconds) / 1000;
  Api page(std::move(inspected), {.version = ATTEND_VERSION, .page = packed_page()});
  for (size_t i = 0; i < training.size(); ++i) page.set_training(i, training[i]);
  const std::atomic<bool>& stop = stop_after_saving();  // until here, a signal ends the process
  ModelApi models(std::move(served), arguments.api);
  allow_many_connections();
  arguments.server.port = static_cast<int>(arguments.port);
  arguments.server.other_port = arguments.port_option->count() == 0;
  Server server(arguments.no_page ? nullptr : &page, models, arguments.server);
  server.start();
  std::cerr << "At most " << arguments.api.tokens_in_flight << " tokens in flight and "
            << arguments.api.cache_bytes / kMebi << " MiB of keys and values for each model.\n";
  std::cout << server.address() << std::endl;
  std::cerr << "Press Ctrl-C to stop.\n";
  serve_until_signal(server, models, stop, {.drain_seconds = arguments.drain_seconds});
}

}  // namespace

void add_serve(Command& app) {
  Command* command = app.add_subcommand("serve", "Serve models over HTTP with OpenAI's API");
  const auto arguments = std::make_shared<ServeArguments>();
  command->add_option("models", arguments->models, "Model folders, or NAME=FOLDER")->required()->type_name("MODEL");
  arguments->port_option =
      command->add_option("--port", arguments->port, "Port; 0: any free port (default: 8757, or the next free port)")
          ->check(whole_number(0, 65535))
          ->type_name("N");
  command->add_option("--host", arguments->server.host, "Address to listen on (default: 127.0.0.1, this machine only)")
      ->type_name("ADDRESS");
  command
      ->add_option(
          "--server-name", arguments->server.names,
          "Further host names that requests may be addressed to, as through a proxy (default: IP addresses and "
          "localhost)")
      ->type_name("NAME");
  command->add_option("--api-key-file", arguments->key_file, "File with one API key per line; the page is then off")
      ->type_name("FILE");
  command
      ->add_option("--cors-origin", arguments->server.cors_origins,
                   "Origins of web pages that may use the models, like https://example.org; *: all (default: none)")
      ->type_name("ADDRESS");
  command
      ->add_option("--max-tokens-in-flight", arguments->api.tokens_in_flight,
                   "Maximum number of tokens in the running requests of a model, generated ones included "
                   "(default: 65536)")
      ->check(whole_number(1, int64_t{1} << 40))
      ->type_name("N");
  command
      ->add_option(
          "--cache-memory", arguments->cache_mib,
          "Maximum memory in MiB for the keys and values of a model (default: half of the free memory of its device, "
          "divided by the number of models)")
      ->check(whole_number(1, int64_t{1} << 30))
      ->type_name("N");
  arguments->prompt_option =
      command
          ->add_option("--prompt-tokens", arguments->api.prompt_tokens,
                       "Maximum number of prompt tokens that are read between two tokens of other requests (default: "
                       "64, on a GPU 512)")
          ->check(whole_number(1, 1 << 30))
          ->type_name("N");
  command
      ->add_option("--prompt-time", arguments->prompt_milliseconds,
                   "Approximate time in milliseconds that these prompt tokens may take: on a slower machine, fewer are "
                   "read at once (default: 80; 0: no limit)")
      ->check(whole_number(0, 1000000))
      ->type_name("N");
  add_cache_type(*command, arguments->cache);
  add_draft(*command, arguments->draft);
  command
      ->add_option("--max-waiting", arguments->api.most_waiting,
                   "Maximum number of waiting requests of a model; more get status 429 (default: 1024)")
      ->check(whole_number(1, 1000000))
      ->type_name("N");
  command
      ->add_option("--drain-seconds", arguments->drain_seconds,
                   "How long running requests may take after Ctrl-C or SIGTERM (default: 30)")
      ->check(whole_number(0, 86400))
      ->type_name("N");
  command->add_flag("--no-page", arguments->no_page, "Do not serve the page");
  add_weight_options(*command, arguments->weights);
  add_compute_options(*command, arguments->compute);
  add_fast(*command, arguments->compute);
  command->footer(kServeExamples);
  command->callback([arguments] { run_serve(*arguments); });
}

}  // namespace attend::cli
