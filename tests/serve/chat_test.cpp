#include <gtest/gtest.h>

#include "attend/chat/chat_template.h"
#include "serve/model_api_testing.h"

namespace attend::testing {
namespace {

using Json = nlohmann::json;

constexpr const char* kTemplate =
    "{% for m in messages %}{{ m.role[0] }}:{{ m.content }}\n{% endfor %}"
    "{% if messages | length > 3 %}{{ raise_exception('too many messages') }}{% endif %}{{ mark }}a:";

struct ChatServer {
  ModelApi models;
  Server server;

  explicit ChatServer(const char* chat = kTemplate)
      : models({talking(chat)}, {}), server(nullptr, models, {.port = 0}) {
    server.start();
  }
  ~ChatServer() {
    server.stop();
    models.stop();
  }
  static ServedModel talking(const char* chat) {
    ServedModel model = tiny_served("gpt", "gpt");
    model.chat = std::make_shared<const ChatTemplate>(chat);
    return model;
  }
  std::string request(const std::string& path, const Json& body) const {
    const std::string text = body.dump();
    return exchange(server.port(), "POST " + path +
                                       " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: " +
                                       std::to_string(text.size()) + "\r\n\r\n" + text);
  }
  Json post(const std::string& path, const Json& body) const { return Json::parse(body_of(request(path, body))); }
  Json chat(Json body) const {
    body.emplace("messages", Json{{{"role", "user"}, {"content", "hi"}}});
    body.emplace("temperature", 0);
    return post("/v1/chat/completions", body);
  }
  std::string text(const Json& body) const { return chat(body)["choices"][0]["message"]["content"]; }
  std::string completion(const std::string& prompt, Json body) const {
    body["prompt"] = prompt;
    body.emplace("temperature", 0);
    return post("/v1/completions", body)["choices"][0]["text"];
  }
};

TEST(Chat, ContinuesTheConversation) {
  const ChatServer served;
  const Json answer = served.chat({{"max_tokens", 9}});
  EXPECT_EQ(answer["object"], "chat.completion");
  const Json& choice = answer["choices"][0];
  EXPECT_EQ(choice["message"]["role"], "assistant");
  EXPECT_EQ(choice["message"]["content"], served.completion("u:hi\na:", {{"max_tokens", 9}}));
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_EQ(answer["usage"], (Json{{"prompt_tokens", 7}, {"completion_tokens", 9}, {"total_tokens", 16}}));
  EXPECT_EQ(served.text({{"max_completion_tokens", 9}}), choice["message"]["content"]);
  EXPECT_EQ(served.chat(Json::object())["usage"]["total_tokens"], 64) << "up to the context";
  const Json several{
      {{"role", "developer"}, {"content", "be"}},
      {{"role", "user"}, {"content", {{{"type", "text"}, {"text", "h"}}, {{"type", "text"}, {"text", "i"}}}}}};
  EXPECT_EQ(served.text({{"messages", several}, {"max_tokens", 5}}),
            served.completion("s:be\nu:hi\na:", {{"max_tokens", 5}}));
  EXPECT_EQ(served.text({{"chat_template_kwargs", {{"mark", "!"}}}, {"max_tokens", 5}}),
            served.completion("u:hi\n!a:", {{"max_tokens", 5}}));
}

TEST(Chat, Streams) {
  const ChatServer served;
  const Json body{{"messages", {{{"role", "user"}, {"content", "hi"}}}},
                  {"seed", 1},
                  {"temperature", 50},
                  {"max_tokens", 8},
                  {"stream", true},
                  {"stream_options", {{"include_usage", true}}}};
  const auto events = events_of(served.request("/v1/chat/completions", body));
  EXPECT_EQ(events[0]["object"], "chat.completion.chunk");
  EXPECT_EQ(events[0]["choices"][0]["delta"]["role"], "assistant");
  std::string text, reason;
  for (const Json& event : events) {
    if (event["choices"].empty()) continue;
    const Json& choice = event["choices"][0];
    text += choice["delta"].value("content", "");
    if (!choice["finish_reason"].is_null()) reason = choice["finish_reason"];
  }
  EXPECT_EQ(text, served.text({{"seed", 1}, {"temperature", 50}, {"max_tokens", 8}}));
  EXPECT_EQ(reason, "length");
  EXPECT_EQ(events.back()["usage"]["completion_tokens"], 8);
}

TEST(Chat, LogProbabilities) {
  const ChatServer served;
  const Json answer = served.chat({{"max_tokens", 3}, {"logprobs", true}, {"top_logprobs", 2}});
  const Json& tokens = answer["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(tokens.size(), 3u) << answer;
  std::string text;
  for (const Json& token : tokens) {
    text += token["token"];
    ASSERT_EQ(token["top_logprobs"].size(), 2u);
    EXPECT_EQ(token["top_logprobs"][0]["logprob"], token["logprob"]) << "greedy";
    EXPECT_EQ(token["bytes"].size(), token["token"].get<std::string>().size());
  }
  EXPECT_EQ(text, answer["choices"][0]["message"]["content"]);
  EXPECT_EQ(
      served.chat({{"max_tokens", 1}, {"logprobs", true}})["choices"][0]["logprobs"]["content"][0]["top_logprobs"],
      Json::array());
}

TEST(Chat, ChecksMessages) {
  const ChatServer served;
  const auto error = [&](const Json& message) {
    const Json user{{"role", "user"}, {"content", "x"}};
    const Json answer = served.chat({{"messages", {user, message}}, {"max_tokens", 1}});
    return answer.contains("error") ? answer["error"]["message"].get<std::string>() : "";
  };
  const Json call{{"id", "c1"}, {"type", "function"}, {"function", {{"name", "f"}, {"arguments", "{}"}}}};
  EXPECT_EQ(error({{"role", "user"}, {"content", nullptr}}), "'messages[1].content' is missing");
  EXPECT_EQ(error({{"role", "user"}}), "'messages[1].content' is missing");
  EXPECT_EQ(error({{"role", "assistant"}}), "'messages[1].content' is missing");
  EXPECT_EQ(error({{"role", "assistant"}, {"content", nullptr}, {"tool_calls", Json::array()}}),
            "'messages[1].content' is missing");
  EXPECT_EQ(error({{"role", "user"}, {"content", Json::array()}}),
            "'messages[1].content' must be a string or an array of parts");
  EXPECT_EQ(error({{"role", "robot"}, {"content", "x"}}),
            "'messages[1].role' must be system, developer, user, assistant or tool, got 'robot'");
  EXPECT_EQ(error({{"role", "tool"}, {"content", "x"}}),
            "'messages[1].tool_call_id' is missing: a tool's message must name the call that it answers");
  EXPECT_EQ(error({{"role", "user"}, {"content", "x"}, {"tool_calls", {call}}}),
            "'messages[1].tool_calls' are only for the role assistant");
  EXPECT_EQ(error({{"role", "assistant"}, {"content", nullptr}, {"tool_calls", {call}}}), "");
  EXPECT_EQ(error({{"role", "assistant"}, {"tool_calls", {call}}}), "");
  EXPECT_EQ(error({{"role", "assistant"}, {"content", "x"}, {"tool_calls", nullptr}}), "");
  EXPECT_EQ(error({{"role", "tool"}, {"content", "x"}, {"tool_call_id", "c1"}}), "");
  const Json missing = served.chat({{"messages", {{{"role", "user"}}}}});
  EXPECT_EQ(missing["error"]["param"], "messages[0].content");
}

TEST(Chat, ATemplateThatKnowsDevelopersReadsThem) {
  const Json messages{{{"role", "developer"}, {"content", "be"}}};
  const Json body{{"messages", messages}, {"max_tokens", 1}, {"return_token_ids", true}};
  const auto read = [&](const char* chat) {
    const ChatServer served(chat);
    const Json ids = served.chat(body)["choices"][0]["prompt_token_ids"];
    return served.post("/detokenize", {{"tokens", ids}})["text"];
  };
  EXPECT_EQ(read("{% for m in messages %}{{ m.role }}:{{ m.content }}{% endfor %}"), "system:be");
  EXPECT_EQ(read("{% for m in messages %}{{ 'D' if m.role == 'developer' else 'S' }}:{{ m.content }}{% endfor %}"),
            "D:be");
}

TEST(Chat, VariablesOfTheTemplateAreNotItsInput) {
  const ChatServer served;
  for (const char* name : {"messages", "tools", "add_generation_prompt"}) {
    const Json answer = served.chat({{"chat_template_kwargs", {{name, true}}}});
    EXPECT_EQ(answer["error"]["message"], "'chat_template_kwargs' may not have '" + std::string(name) + "'");
    EXPECT_EQ(answer["error"]["param"], "chat_template_kwargs");
  }
}

TEST(Chat, ErrorsNameTheField) {
  const ChatServer served;
  const auto message = [&](const Json& body) { return served.chat(body)["error"]["message"].get<std::string>(); };
  EXPECT_EQ(message({{"messages", Json::array()}}), "'messages' must be an array of 1 to 4096 messages");
  EXPECT_EQ(message({{"messages", {{{"content", "x"}}}}}), "'messages' must have objects with 'role' and 'content'");
  const Json image{{{"role", "user"}, {"content", {{{"type", "image_url"}, {"image_url", "x"}}}}}};
  EXPECT_EQ(message({{"messages", image}}), "'messages' may have only parts of type \"text\"");
  const Json one{{"role", "user"}, {"content", "x"}};
  EXPECT_NE(message({{"messages", {one, one, one, one}}}).find("too many messages"), std::string::npos);
  EXPECT_EQ(message({{"messages", {{{"role", "user"}, {"content", std::string(100, 'x')}}}}}),
            "the prompt has 105 tokens, but the model's context is 64 tokens");
  EXPECT_EQ(message({{"top_logprobs", 2}}), "'top_logprobs' requires 'logprobs': true");
  EXPECT_EQ(message({{"max_tokens", 2}, {"max_completion_tokens", 2}}),
            "'max_completion_tokens' cannot be combined with 'max_tokens'");
  EXPECT_EQ(message({{"prompt", "x"}}), "'prompt' is not supported");
  const ServedModels others;
  EXPECT_EQ(others.post("/v1/chat/completions", {{"model", "gpt"}, {"messages", {one}}})["error"]["message"],
            "'model' has no chat template; use /v1/completions");
}

}  // namespace
}  // namespace attend::testing
