// Any request gets a response with a status from 200 to 599; from 400 on it is a JSON object with a one-line error. The
// input is `METHOD path?name=value&…`, a line feed, then the body.
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "attend/models/registry.h"
#include "attend/serve/api.h"
#include "attend/serve/server.h"

namespace {

void expect(bool ok) {
  if (!ok) std::abort();
}

attend::InspectedModel tiny(const std::string& architecture) {
  std::string all;
  for (char c = ' '; c <= '~'; ++c) all += c;
  bool is_given = false;
  const auto tokenizer = attend::train_tokenizer(
      [&]() -> std::optional<std::string> { return std::exchange(is_given, true) ? std::nullopt : std::optional(all); },
      {.kind = attend::TokenizerKind::characters, .vocabulary = 1000, .min_count = 1});
  std::map<std::string, std::string> settings{
      {"vocab_size", std::to_string(tokenizer->size())}, {"dim", "8"}, {"context", "24"}};
  if (architecture == "rnn-attention") {
    settings["state_dim"] = "8";
  } else {
    settings["heads"] = "2", settings["ffn_dim"] = "8";
  }
  if (architecture == "encoder") settings["labels"] = R"(["a", "b"])";
  attend::Rng rng{1};
  return {
      .name = "tiny",
      .model = attend::create_model(attend::with_settings(attend::preset_config(architecture, "tiny"), settings), rng),
      .tokenizer = tokenizer,
      .example = "abc",
      .example_target = {}};
}

attend::InspectedModel tiny_vision() {
  attend::Rng rng{1};
  const attend::Image gray{.width = 4, .height = 4, .pixels = std::vector<uint8_t>(48, 128)};
  return {.name = "tiny",
          .model = attend::Vision::create(
              {.image = 4, .patch = 2, .labels = {"a", "b"}, .dim = 8, .heads = 2, .layers = 1, .ffn_dim = 8}, rng),
          .tokenizer = {},
          .example = "gray.png",
          .example_target = {},
          .preparation = {.size = {4, 4}},
          .example_picture = std::make_shared<const attend::Image>(gray)};
}

attend::Api& api() {
  static attend::Api made({tiny("gpt"), tiny("transformer"), tiny("rnn-attention"), tiny("encoder"), tiny_vision()},
                          {.version = "1", .most_runs = 4});
  static const bool has_run = [] {
    for (const char* model : {"m0", "m1", "m2", "m3", "m4"}) {
      const nlohmann::json body{{"model", model}, {"text", "abc"}, {"target", "de"}};
      made.handle({.method = "POST", .path = "/api/runs", .query = {}, .body = body.dump()});
    }
    return true;
  }();
  static_cast<void>(has_run);
  return made;
}

attend::ApiRequest parse(std::string_view bytes) {
  attend::ApiRequest request;
  const size_t line = std::min(bytes.find('\n'), bytes.size());
  std::string_view head = bytes.substr(0, line);
  request.body = bytes.substr(std::min(line + 1, bytes.size()));
  const size_t blank = head.find(' ');
  if (blank != std::string_view::npos) request.method = head.substr(0, blank), head.remove_prefix(blank + 1);
  const size_t mark = std::min(head.find('?'), head.size());
  request.path = head.substr(0, mark);
  for (size_t at = mark + 1; at < head.size();) {
    const size_t end = std::min(head.find('&', at), head.size());
    const std::string_view pair = head.substr(at, end - at);
    const size_t equals = std::min(pair.find('='), pair.size());
    request.query.emplace(pair.substr(0, equals), pair.substr(std::min(equals + 1, pair.size())));
    at = end + 1;
  }
  return request;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const attend::ApiRequest request = parse(bytes);
  const attend::ApiResponse response = api().handle(request);
  expect(response.status >= 200 && response.status < 600);
  if (response.status >= 400) {
    const auto json = nlohmann::json::parse(response.body, nullptr, false);
    expect(json.is_object() && json.contains("error"));
    expect(json["error"].get<std::string>().find('\n') == std::string::npos);
  }
  if (response.stream && request.path == "/api/generate") {
    int pieces = 0;
    response.stream([&](std::string_view) { return ++pieces < 6; });
  }
  attend::is_own_request(request.path, request.body, request.method);
  return 0;
}
