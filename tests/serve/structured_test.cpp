// response_format and tools: texts that follow a schema, and calls of functions.
#include <gtest/gtest.h>

#include "attend/chat/chat_template.h"
#include "generate/byte_tokenizer.h"
#include "generate/tiny_models.h"
#include "serve/model_api_testing.h"

namespace attend::testing {
namespace {

using Json = nlohmann::json;

constexpr const char* kTemplate =
    "{% if tools %}<tool_call>{{ tools[0].function.name }}\n{% endif %}"
    "{% for m in messages %}{{ m.role[0] }}:{{ m.content }}"
    "{% for c in m.tool_calls or [] %}[{{ c.function.arguments.x }}]{% endfor %}\n{% endfor %}a:";

/// A server of one model whose tokens are the ASCII characters.
struct AsciiServer {
  ModelApi models;
  Server server;

  explicit AsciiServer(const char* chat = kTemplate) : AsciiServer(served(chat)) {}
  explicit AsciiServer(ServedModel model) : models({std::move(model)}, {}), server(nullptr, models, {.port = 0}) {
    server.start();
  }
  ~AsciiServer() {
    server.stop();
    models.stop();
  }
  static ServedModel served(const char* chat) {
    const auto tokenizer = std::make_shared<const ByteTokenizer>(128, 0);
    return {.name = "gpt",
            .model = tiny_model("gpt", tokenizer->size(), {{"context", "400"}}),
            .tokenizer = tokenizer,
            .chat = std::make_shared<const ChatTemplate>(chat)};
  }
  std::string request(const std::string& path, Json body) const {
    body.emplace("model", "gpt");
    body.emplace("seed", 3);
    if (path == "/v1/chat/completions") body.emplace("messages", Json{{{"role", "user"}, {"content", "hi"}}});
    const std::string text = body.dump();
    return exchange(server.port(), "POST " + path +
                                       " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: " +
                                       std::to_string(text.size()) + "\r\n\r\n" + text);
  }
  Json chat(const Json& body) const { return Json::parse(body_of(request("/v1/chat/completions", body))); }
  std::string error(const Json& body) const {
    const Json answer = chat(body);
    return answer.contains("error") ? answer["error"]["message"].get<std::string>() : answer.dump();
  }
};

Json schema_format(const Json& schema) {
  return {{"type", "json_schema"}, {"json_schema", {{"name", "n"}, {"strict", true}, {"schema", schema}}}};
}

const Json kPerson = Json::parse(R"({"type":"object","properties":{"name":{"type":"string","maxLength":8},
    "age":{"type":"integer","minimum":10,"maximum":99}},"required":["name","age"],"additionalProperties":false})");
const Json kTools = Json::parse(R"([{"type":"function","function":{"name":"look_up","parameters":{"type":"object",
    "properties":{"x":{"type":"integer","minimum":0,"maximum":99}},"required":["x"]}}},
    {"type":"function","function":{"name":"now"}}])");

void expect_person(const std::string& text) {
  const Json value = Json::parse(text, nullptr, false);
  ASSERT_TRUE(value.is_object()) << text;
  EXPECT_EQ(value.size(), 2U) << text;
  EXPECT_LE(value["name"].get<std::string>().size(), 8U);
  EXPECT_TRUE(value["age"] >= 10 && value["age"] <= 99) << text;
}

TEST(ResponseFormat, AnswersFollowTheSchema) {
  const AsciiServer served;
  const Json format = schema_format(kPerson);
  for (const double temperature : {0.0, 1.0, 5.0}) {
    const Json answer = served.chat({{"response_format", format}, {"temperature", temperature}, {"n", 3}});
    for (const Json& choice : answer["choices"]) {
      expect_person(choice["message"]["content"]);
      EXPECT_EQ(choice["finish_reason"], "stop");
    }
  }
  const Json choices = schema_format({{"enum", {"ab", "c", 12}}});
  const Json beams = served.chat({{"response_format", choices}, {"beam", 3}, {"n", 3}, {"seed", nullptr}});
  ASSERT_TRUE(beams.contains("choices")) << beams;
  std::set<std::string> texts;
  for (const Json& choice : beams["choices"]) {
    const Json value = Json::parse(choice["message"]["content"].get<std::string>());
    EXPECT_TRUE(value == "ab" || value == "c" || value == 12) << value;
    texts.insert(choice["message"]["content"]);
  }
  EXPECT_EQ(texts.size(), 3U);
  const Json cut = served.chat({{"response_format", format}, {"max_tokens", 4}});
  EXPECT_EQ(cut["choices"][0]["finish_reason"], "length");
  const Json plain = served.chat({{"response_format", {{"type", "text"}}}, {"max_tokens", 4}, {"temperature", 0}});
  EXPECT_EQ(plain["choices"], served.chat({{"max_tokens", 4}, {"temperature", 0}})["choices"]);
  const Json body{{"prompt", "x"}, {"response_format", format}, {"logprobs", 1}, {"max_tokens", 200}};
  const std::string completion = body_of(served.request("/v1/completions", body));
  ASSERT_TRUE(Json::parse(completion).contains("choices")) << completion;
  expect_person(Json::parse(completion)["choices"][0]["text"]);
}

TEST(ResponseFormat, StreamsTheSameText) {
  const AsciiServer served;
  const Json body{{"response_format", schema_format(kPerson)}, {"temperature", 2}};
  Json streamed = body;
  streamed["stream"] = true;
  std::string text;
  for (const Json& event : events_of(served.request("/v1/chat/completions", streamed))) {
    const Json& delta = event["choices"][0]["delta"];
    if (delta.contains("content")) text += delta["content"].get<std::string>();
  }
  EXPECT_EQ(text, served.chat(body)["choices"][0]["message"]["content"]);
  expect_person(text);
}

TEST(ResponseFormat, ErrorsNameTheField) {
  const AsciiServer served;
  EXPECT_EQ(served.error({{"response_format", schema_format({{"not", Json::object()}})}}),
            "'response_format' cannot be used: schema: #: the keyword 'not' is not supported");
  EXPECT_EQ(served.chat({{"response_format", {{"type", "xml"}}}})["error"]["param"], "response_format");
  EXPECT_EQ(served.error({{"response_format", {{"type", "json_object"}}}, {"ignore_eos", true}}),
            "'response_format' cannot be combined with 'ignore_eos'");
  EXPECT_EQ(served.error({{"response_format", {{"type", "json_object"}}}, {"tools", kTools}}),
            "'response_format' cannot be combined with 'tools'");
  EXPECT_EQ(served.error({{"tools", 3}}), "tools: expected a list");
  EXPECT_EQ(served.error({{"tools", kTools}, {"tool_choice", "maybe"}}),
            "tool_choice: expected none, auto, required or a function, got 'maybe'");
  const auto field = [&](Json body) { return served.chat(std::move(body))["error"]["param"].get<std::string>(); };
  EXPECT_EQ(field({{"tools", 3}}), "tools");
  EXPECT_EQ(field({{"tools", kTools}, {"tool_choice", "x"}}), "tool_choice");
  EXPECT_EQ(field({{"tool_choice", "required"}}), "tool_choice");
  EXPECT_EQ(field({{"tools", kTools}, {"tool_choice", {{"type", "function"}, {"function", {{"name", "no"}}}}}}),
            "tool_choice");
  EXPECT_EQ(field({{"tools", kTools}, {"parallel_tool_calls", 1}}), "parallel_tool_calls");
  const AsciiServer plain("{{ messages[0].content }}");
  EXPECT_EQ(plain.error({{"tools", kTools}}), "'tools' are not supported by the model's chat template");
}

/// An error of a text that cannot be continued: clients do not repeat the request.
void expect_dead_end(const Json& error, const std::string& field) {
  EXPECT_EQ(error["type"], "invalid_request_error") << error;
  EXPECT_EQ(error["param"], field);
  EXPECT_EQ(error["code"], "format_dead_end");
}

TEST(ResponseFormat, AFormatThatCannotBeWrittenIsRefused) {
  const AsciiServer served;
  const Json format = schema_format({{"enum", {"天"}}});
  EXPECT_EQ(
      served.error({{"response_format", format}, {"stream", true}}),
      "'response_format' cannot be used: the vocabulary cannot write any text of this format: it has no token for "
      "'天' after '\"'");
  EXPECT_EQ(served.chat({{"response_format", format}})["error"]["param"], "response_format");
  // The other value is written.
  EXPECT_EQ(served.chat({{"response_format", schema_format({{"enum", {"a天", "b"}}})},
                         {"temperature", 0}})["choices"][0]["message"]["content"],
            "\"b\"");
}

TEST(ResponseFormat, ADeadEndIsNoFaultOfTheServer) {
  ServedModel model = AsciiServer::served(kTemplate);
  model.rules.banned = {5 + 'u'};
  const AsciiServer served(std::move(model));
  const Json body{{"response_format", schema_format({{"const", true}})}};
  EXPECT_TRUE(served.request("/v1/chat/completions", body).starts_with("HTTP/1.1 400 "));
  expect_dead_end(served.chat(body)["error"], "response_format");
  Json stream = body;
  stream["stream"] = true;
  const std::string answer = body_of(served.request("/v1/chat/completions", stream));
  const size_t begin = answer.find("data: {\"error\""), end = answer.find('\n', begin);
  ASSERT_NE(begin, std::string::npos) << answer;
  expect_dead_end(Json::parse(answer.substr(begin + 6, end - begin - 6))["error"], "response_format");
  expect_dead_end(served.chat({{"tools", kTools}, {"tool_choice", "required"}})["error"], "tools");
}

TEST(Tools, RequiredCallsComeBackAsCalls) {
  const AsciiServer served;
  const Json answer = served.chat({{"tools", kTools}, {"tool_choice", "required"}, {"parallel_tool_calls", false}});
  const Json& choice = answer["choices"][0];
  ASSERT_EQ(choice["finish_reason"], "tool_calls") << answer;
  EXPECT_EQ(choice["message"]["content"], nullptr);
  ASSERT_EQ(choice["message"]["tool_calls"].size(), 1U);
  const Json& call = choice["message"]["tool_calls"][0];
  EXPECT_EQ(call["type"], "function");
  EXPECT_TRUE(call["id"].get<std::string>().starts_with("call_"));
  EXPECT_TRUE(Json::parse(call["function"]["arguments"].get<std::string>()).is_object());
  const Json named = served.chat({{"tools", kTools},
                                  {"tool_choice", {{"type", "function"}, {"function", {{"name", "look_up"}}}}},
                                  {"temperature", 3}});
  const Json& function = named["choices"][0]["message"]["tool_calls"][0]["function"];
  EXPECT_EQ(function["name"], "look_up");
  EXPECT_TRUE(Json::parse(function["arguments"].get<std::string>())["x"].is_number_integer());
}

TEST(Tools, StreamedCallsAreDeltas) {
  const AsciiServer served;
  Json body{{"tools", kTools}, {"tool_choice", "required"}, {"parallel_tool_calls", false}, {"temperature", 2}};
  const Json whole = served.chat(body)["choices"][0]["message"]["tool_calls"];
  body["stream"] = true;
  Json calls = Json::array();
  std::string reason;
  for (const Json& event : events_of(served.request("/v1/chat/completions", body))) {
    const Json& choice = event["choices"][0];
    if (choice["delta"].contains("tool_calls")) calls.push_back(choice["delta"]["tool_calls"][0]);
    if (choice["finish_reason"].is_string()) reason = choice["finish_reason"];
  }
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_EQ(calls[0]["index"], 0);
  calls[0].erase("index");
  EXPECT_EQ(calls, whole);
  EXPECT_EQ(reason, "tool_calls");
}

TEST(Tools, TheTemplateSeesToolsAndEarlierCalls) {
  const AsciiServer served;
  const auto prompt_tokens = [&](Json body) {
    body["max_tokens"] = 1;
    return served.chat(body)["usage"]["prompt_tokens"].get<int>();
  };
  EXPECT_EQ(prompt_tokens(Json::object()), 6);                                // u:hia:
  EXPECT_EQ(prompt_tokens({{"tools", kTools}}), 6 + 19);                      // <tool_call>look_up\n
  EXPECT_EQ(prompt_tokens({{"tools", kTools}, {"tool_choice", "none"}}), 6);  // not shown
  const Json earlier = Json::parse(R"([{"role":"user","content":"hi"},{"role":"assistant","content":"","tool_calls":
      [{"id":"call_1","type":"function","function":{"name":"look_up","arguments":"{\"x\": 42}"}}]}])");
  EXPECT_EQ(prompt_tokens({{"messages", earlier}}), 6 + 6);  // a:[42]
}

}  // namespace
}  // namespace attend::testing
