#include "attend/grammar/tool_calls.h"

#include <gtest/gtest.h>

#include "attend/base/error.h"

namespace attend {
namespace {

struct Answer {
  std::string text;
  std::vector<ToolCall> calls;
};

/// The answer in pieces of `size` bytes.
Answer read(const std::string& text, const ToolCallParser::Options& options, size_t size) {
  ToolCallParser parser(options);
  Answer answer;
  const auto add = [&](ToolCallParser::Piece piece) {
    answer.text += piece.text;
    answer.calls.insert(answer.calls.end(), piece.calls.begin(), piece.calls.end());
  };
  for (size_t at = 0; at < text.size(); at += size) add(parser.push(std::string_view(text).substr(at, size)));
  add(parser.finish());
  EXPECT_EQ(parser.has_calls(), !answer.calls.empty());
  return answer;
}

/// The text, then each call as name(arguments), the same for all sizes of pieces.
std::string shown(const std::string& text, const ToolCallParser::Options& options) {
  std::string first;
  for (const size_t size : {size_t{1000}, size_t{1}, size_t{2}, size_t{7}}) {
    const Answer answer = read(text, options, size);
    std::string result = answer.text;
    for (const ToolCall& call : answer.calls) result += "|" + call.name + "(" + call.arguments + ")";
    if (first.empty()) first = result;
    EXPECT_EQ(result, first) << size;
  }
  return first;
}

const ToolCallParser::Options kHermes{.format = ToolFormat::hermes};
const ToolCallParser::Options kLlama{.format = ToolFormat::llama3, .names = {"f", "g"}};

TEST(ToolCalls, Hermes) {
  const std::string f = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call>";
  EXPECT_EQ(shown(f, kHermes), "|f({\"x\":1})");
  EXPECT_EQ(shown("Let me look.\n" + f, kHermes), "Let me look.|f({\"x\":1})");
  EXPECT_EQ(shown(f + "\n" + f + "\n", kHermes), "|f({\"x\":1})|f({\"x\":1})");
  EXPECT_EQ(shown("<tool_call>{\"name\": \"g\"}</tool_call>", kHermes), "|g({})");
  EXPECT_EQ(shown(f.substr(0, f.size() - 13), kHermes), "|f({\"x\":1})");  // without its end
  EXPECT_EQ(shown("a < b <tool b  \n c", kHermes), "a < b <tool b  \n c");
  EXPECT_EQ(shown("", kHermes), "");
}

TEST(ToolCalls, MalformedCallsAreText) {
  for (const char* text : {"<tool_call>\n{\"name\": 3}\n</tool_call> x", "a <tool_call>{\"name\": \"f\", \"argu",
                           "<tool_call>f(x)</tool_call>", "<tool_call>", "</tool_call>", "x\n<tool_ca",
                           "<tool_call>{\"name\":\"f\",\"arguments\":[1]}</tool_call>"}) {
    EXPECT_EQ(shown(text, kHermes), text);
  }
  for (const char* text : {"{\"name\": \"f\", \"parameters\": 3}", "{\"name\": \"f\"", "{\"name\": \"other\"}",
                           "  {\"a\": 1} ", "<|python_tag|>print(1)", "<|pyth", "{\"name\": \"f\"} and more"}) {
    EXPECT_EQ(shown(text, kLlama), text);
  }
}

TEST(ToolCalls, Llama3) {
  EXPECT_EQ(shown("{\"name\": \"f\", \"parameters\": {\"x\": \"a;}\\\"\"}}", kLlama), "|f({\"x\":\"a;}\\\"\"})");
  EXPECT_EQ(shown("<|python_tag|>{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", \"parameters\": {}}", kLlama),
            "|f({})|g({})");
  EXPECT_EQ(shown("Hello {\"name\": \"f\"}", kLlama), "Hello {\"name\": \"f\"}");
  EXPECT_EQ(shown("plain", {}), "plain");
}

TEST(ToolCalls, TextIsPassedOnAtOnce) {
  ToolCallParser parser(kHermes);
  EXPECT_EQ(parser.push("Hello wor").text, "Hello wor");
  EXPECT_EQ(parser.push("ld <to").text, "ld");
  EXPECT_EQ(parser.push("p>").text, " <top>");
}

TEST(ToolCalls, IdsDifferAndFollowTheSeed) {
  const std::string text = "<tool_call>{\"name\":\"f\"}</tool_call><tool_call>{\"name\":\"f\"}</tool_call>";
  const Answer answer = read(text, kHermes, 100), again = read(text, kHermes, 3);
  ASSERT_EQ(answer.calls.size(), 2U);
  EXPECT_NE(answer.calls[0].id, answer.calls[1].id);
  EXPECT_EQ(answer.calls[0].id, again.calls[0].id);
  EXPECT_EQ(answer.calls[0].id.substr(0, 5), "call_");
  EXPECT_NE(read(text, {.format = ToolFormat::hermes, .seed = 1}, 100).calls[0].id, answer.calls[0].id);
  EXPECT_EQ(read(text, {.format = ToolFormat::hermes, .is_parallel = false}, 100).calls.size(), 1U);
}

TEST(ToolCalls, FormatOfATemplate) {
  EXPECT_EQ(tool_format("… <tool_call></tool_call> …"), ToolFormat::hermes);
  EXPECT_EQ(tool_format("{{ '<|python_tag|>' }}"), ToolFormat::llama3);
  EXPECT_EQ(tool_format("Environment: ipython {\"name\": x, \"parameters\": y}"), ToolFormat::llama3);
  EXPECT_EQ(tool_format("{{ messages }}"), ToolFormat::none);
}

const Json kTools = Json::parse(R"([
    {"type":"function","function":{"name":"weather","strict":true,"parameters":{"type":"object","properties":
      {"city":{"type":"string"},"unit":{"$ref":"#/$defs/u"}},"required":["city"],"$defs":{"u":{"enum":["C","F"]}}}}},
    {"type":"function","function":{"name":"now"}}])");

ToolRequest request(const char* choice, const char* parallel = "null") {
  return read_tools(kTools, Json::parse(choice), Json::parse(parallel));
}

TEST(ToolRequest, ReadsOpenAisFields) {
  EXPECT_EQ(request("null").choice, ToolChoice::automatic);
  EXPECT_EQ(request("\"none\"").choice, ToolChoice::none);
  EXPECT_EQ(request("\"required\"").choice, ToolChoice::required);
  EXPECT_EQ(request("\"auto\"").names(), (std::vector<std::string>{"weather", "now"}));
  EXPECT_EQ(request(R"({"type":"function","function":{"name":"now"}})").names(), std::vector<std::string>{"now"});
  EXPECT_EQ(read_tools(nullptr, nullptr, nullptr).choice, ToolChoice::none);
  EXPECT_THROW(request("\"maybe\""), FormatError);
  EXPECT_THROW(request(R"({"type":"function","function":{"name":"x"}})"), FormatError);
  EXPECT_THROW(request("null", "3"), FormatError);
  EXPECT_THROW(read_tools(Json::parse("[]"), "required", nullptr), FormatError);
  EXPECT_THROW(read_tools(Json::parse("[{}]"), nullptr, nullptr), FormatError);
}

TEST(ToolGrammar, RequiredCallsFollowTheSchemas) {
  const Grammar grammar = *tool_grammar(request("\"required\""), ToolFormat::hermes);
  const std::string call =
      "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"北京\", \"unit\": \"C\"}}\n</tool_call>";
  const std::string now = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
  for (const std::string& text : {call, now, call + "\n" + now}) EXPECT_TRUE(grammar.matches(text)) << text;
  for (const std::string& text :
       {std::string(), "Hi " + call, call + now,
        std::string("<tool_call>\n{\"name\": \"now\", \"arguments\": {\"x\": 1}}\n</tool_call>"),
        std::string("<tool_call>\n{\"name\": \"weather\", \"arguments\": {}}\n</tool_call>")}) {
    EXPECT_FALSE(grammar.matches(text)) << text;
  }
  const Grammar one = *tool_grammar(request("\"required\"", "false"), ToolFormat::hermes);
  EXPECT_TRUE(one.matches(call));
  EXPECT_FALSE(one.matches(call + "\n" + now));
  const Grammar named = *tool_grammar(request(R"({"type":"function","function":{"name":"now"}})"), ToolFormat::llama3);
  EXPECT_TRUE(named.matches("{\"name\": \"now\", \"parameters\": {}}"));
  EXPECT_FALSE(named.matches("{\"name\": \"weather\", \"parameters\": {\"city\": \"\"}}"));
  EXPECT_THROW(tool_grammar(request("\"required\""), ToolFormat::none), FormatError);
  EXPECT_FALSE(tool_grammar(request("\"none\""), ToolFormat::hermes));
}

TEST(ToolGrammar, AutomaticCallsOfStrictTools) {
  const Grammar grammar = *tool_grammar(request("null"), ToolFormat::hermes);
  const std::string call = "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"x\"}}\n</tool_call>";
  for (const std::string& text :
       {std::string(), std::string("a <b> <<tool_cal\n天"), "Hi " + call + "\n" + call + " end",
        std::string("<tool_call>\n{\"name\": \"now\", \"arguments\": {\"free\": []}}\n</tool_call>")}) {
    EXPECT_TRUE(grammar.matches(text)) << text;
  }
  EXPECT_FALSE(grammar.matches("<<tool_call>x"));
  EXPECT_FALSE(grammar.matches("<tool_call>\n{\"name\": \"weather\", \"arguments\": {}}\n</tool_call>"));
  EXPECT_FALSE(tool_grammar(request("null"), ToolFormat::llama3));
  EXPECT_FALSE(tool_grammar(request("null", "false"), ToolFormat::hermes)->matches(call + call));
}

}  // namespace
}  // namespace attend
