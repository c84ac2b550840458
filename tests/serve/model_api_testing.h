#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "attend/serve/model_api.h"
#include "serve/http_testing.h"

namespace attend::testing {

inline ServedModel tiny_served(const std::string& name, const std::string& architecture,
                               std::map<std::string, std::string> settings = {}) {
  const InspectedModel model = tiny_inspected(architecture, std::move(settings));
  return {.name = name, .model = model.model, .tokenizer = model.tokenizer};
}

/// A server with small untrained models: "gpt", "en-de" and "labels".
struct ServedModels {
  ModelApi models;
  Server server;

  explicit ServedModels(ModelApiOptions api = {}, ServerOptions options = {})
      : models({tiny_served("gpt", "gpt", {{"context", "64"}}), tiny_served("en-de", "transformer"),
                tiny_served("labels", "encoder", {{"labels", R"(["good","bad"])"}})},
               api),
        server(nullptr, models, with_any_port(std::move(options))) {
    server.start();
  }
  ~ServedModels() {
    server.stop();
    models.stop();
  }

  static ServerOptions with_any_port(ServerOptions options) {
    options.port = 0;
    return options;
  }

  std::string request(const std::string& line, const std::string& body = {}, const std::string& headers = {}) const {
    std::string text = line + " HTTP/1.1\r\nConnection: close\r\n" + headers;
    if (headers.find("Host:") == std::string::npos) text += "Host: localhost\r\n";
    if (!body.empty() || line.starts_with("POST")) text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
    return exchange(server.port(), text + "\r\n" + body);
  }

  /// The response to a POST of JSON, with "status" added.
  nlohmann::json post(const std::string& path, const nlohmann::json& body) const {
    const std::string answer = request("POST " + path, body.dump());
    nlohmann::json result = nlohmann::json::parse(body_of(answer), nullptr, false);
    if (result.is_object()) result["status"] = status_of(answer);
    return result;
  }

  nlohmann::json complete(nlohmann::json body) const {
    body.emplace("model", "gpt");
    body.emplace("prompt", "hello");
    return post("/v1/completions", body);
  }

  std::string text(const nlohmann::json& body) const {
    const nlohmann::json answer = complete(body);
    return answer["status"] == 200 ? answer["choices"][0]["text"].get<std::string>() : answer.dump();
  }

  /// The message of the error of a completion.
  std::string error(const nlohmann::json& body, int status = 400) const {
    const nlohmann::json answer = complete(body);
    EXPECT_EQ(answer["status"], status) << answer;
    return answer.contains("error") ? answer["error"]["message"].get<std::string>() : answer.dump();
  }
};

/// The bytes of a chunked body.
inline std::string unchunked(const std::string& body) {
  std::string result;
  for (size_t at = 0; at < body.size();) {
    const size_t line = body.find("\r\n", at);
    const size_t size = std::stoul(body.substr(at, line - at), nullptr, 16);
    if (size == 0) return result;
    result += body.substr(line + 2, size);
    at = line + 2 + size + 2;
  }
  return result + "<incomplete>";
}

/// The events of a stream of server-sent events, without the last "[DONE]".
inline std::vector<nlohmann::json> events_of(const std::string& answer) {
  std::vector<nlohmann::json> events;
  std::string rest = unchunked(body_of(answer));
  bool is_done = false;
  while (!rest.empty()) {
    const size_t end = rest.find("\n\n");
    const std::string event = rest.substr(0, end);
    rest.erase(0, end == std::string::npos ? rest.size() : end + 2);
    EXPECT_TRUE(event.starts_with("data: ")) << event;
    is_done = event == "data: [DONE]";
    if (!is_done) events.push_back(nlohmann::json::parse(event.substr(6)));
  }
  EXPECT_TRUE(is_done);
  return events;
}

/// The value of a metric of the model "gpt".
inline int64_t metric_of(int port, const std::string& name) {
  const std::string text =
      body_of(exchange(port, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"));
  const std::string line = name + "{model=\"gpt\"} ";
  return std::stoll(text.substr(text.find(line) + line.size()));
}
/// Waits up to ten seconds until a metric has this value.
inline bool metric_becomes(int port, const std::string& name, int64_t value) {
  for (int i = 0; i < 1000 && metric_of(port, name) != value; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return metric_of(port, name) == value;
}

}  // namespace attend::testing
