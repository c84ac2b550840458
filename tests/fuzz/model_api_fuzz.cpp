// Any request to models gets one whole response with a status from 200 to 599; from 400 on it is a JSON object with an
// error. The input is `METHOD path`, a line feed, then the body. Translations also take forms.
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "attend/chat/chat_template.h"
#include "attend/models/registry.h"
#include "attend/serve/model_api.h"
#include "serve/http/message.h"
#include "serve/http/responder.h"
#include "serve/model_api_state.h"

namespace {

void expect(bool ok) {
  if (!ok) std::abort();
}

attend::ServedModel tiny(const std::string& name, const std::string& architecture) {
  std::string all = "你好";
  for (char c = ' '; c <= '~'; ++c) all += c;
  bool is_given = false;
  const auto tokenizer = attend::train_tokenizer(
      [&]() -> std::optional<std::string> { return std::exchange(is_given, true) ? std::nullopt : std::optional(all); },
      {.kind = attend::TokenizerKind::characters, .vocabulary = 1000, .min_count = 1});
  std::map<std::string, std::string> settings{{"vocab_size", std::to_string(tokenizer->size())},
                                              {"dim", "8"},
                                              {"context", "24"},
                                              {"heads", "2"},
                                              {"ffn_dim", "8"}};
  if (architecture == "encoder") settings["labels"] = R"(["a", "b"])";
  attend::Rng rng{1};
  attend::ServedModel model{
      .name = name,
      .model = attend::create_model(attend::with_settings(attend::preset_config(architecture, "tiny"), settings), rng),
      .tokenizer = tokenizer};
  if (architecture == "gpt") {
    model.chat = std::make_shared<const attend::ChatTemplate>("{% for m in messages %}{{ m.content }}{% endfor %}:");
  }
  return model;
}

attend::ModelApi& api() {
  static attend::ModelApi made({tiny("gpt", "gpt"), tiny("en-de", "transformer"), tiny("labels", "encoder")},
                               {.tokens_in_flight = 500, .version = "1"});
  return made;
}

/// The bytes of the response.
std::string answer(attend::HttpRequest request) {
  static const auto door = std::make_shared<attend::LoopDoor>();
  const auto channel = std::make_shared<attend::Channel>(door, 1);
  attend::Responder responder(channel, request);
  api().state().handle(std::move(request), std::move(responder));
  while (!channel->is_complete()) std::this_thread::sleep_for(std::chrono::microseconds(20));
  int pair[2];
  expect(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
  std::string result;
  char buffer[1 << 14];
  for (size_t count = 1; count > 0;) {
    channel->send_to(pair[0], count);
    for (ssize_t got; count > 0 && (got = recv(pair[1], buffer, sizeof buffer, MSG_DONTWAIT)) > 0;) {
      result.append(buffer, static_cast<size_t>(got));
    }
  }
  close(pair[0]);
  close(pair[1]);
  return result;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t line = std::min(input.find('\n'), input.size()), space = input.substr(0, line).find(' ');
  if (space == std::string_view::npos) return 0;
  attend::HttpRequest request;
  request.method = input.substr(0, space);
  request.path = request.target = input.substr(space + 1, line - space - 1);
  request.body = input.substr(std::min(line + 1, input.size()));
  const bool has_body = request.method != "HEAD";
  const bool is_translation = request.path == "/translate" || request.path == "/languages";
  if (is_translation && !request.body.starts_with('{')) {
    const bool is_multipart = request.body.starts_with("--");
    request.headers.push_back(
        {"content-type", is_multipart ? "multipart/form-data; boundary=x" : "application/x-www-form-urlencoded"});
  }
  const std::string bytes = answer(std::move(request));
  const int status = bytes.size() > 12 ? std::atoi(bytes.c_str() + 9) : 0;
  expect(status >= 200 && status < 600 && status != 500);
  if (status < 400 || !has_body) return 0;
  const auto json = nlohmann::json::parse(bytes.substr(bytes.find("\r\n\r\n") + 4), nullptr, false);
  expect(json.is_object() && json.contains("error"));
  expect(is_translation ? json["error"].is_string()
                        : json["error"].is_object() && json["error"]["message"].is_string());
  return 0;
}
