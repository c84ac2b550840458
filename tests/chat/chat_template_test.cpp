#include "attend/chat/chat_template.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "testing/temporary_folder.h"

// What templates print is compared with Jinja's own output by the reference cases in tests/golden/cases/chat_templates.
namespace attend {
namespace {

std::string render(const std::string& source, const char* variables = "{}") {
  return ChatTemplate(source).render({.messages = Json::parse(R"([{"role": "user", "content": "Hi"}])"),
                                      .tools = {},
                                      .add_generation_prompt = true,
                                      .extra = Json::parse(variables),
                                      .now = {}});
}

/// The message of the FormatError that parsing or rendering throws.
std::string error_of(const std::string& source, const char* variables = "{}") {
  try {
    return "printed: " + render(source, variables);
  } catch (const FormatError& error) {
    return error.what();
  }
}

TEST(ChatTemplate, GivesTheVariablesOfAConversation) {
  const ChatTemplate chat(
      "{{ bos_token }}{{ messages[0].content }}{{ tools is none }}{{ documents }}{{ x }}"
      "{% if add_generation_prompt %}>{% endif %}",
      {.special_tokens = Json::parse(R"({"bos_token": "<s>", "x": 1})"), .limits = {}});
  ChatInput input{.messages = Json::parse(R"([{"role": "user", "content": "你好"}])")};
  EXPECT_EQ(chat.render(input), "<s>你好TrueNone1>");
  input.add_generation_prompt = false;
  input.tools = Json::array();
  input.extra = Json::parse(R"({"x": {"b": 1.0, "a": null}, "documents": []})");  // extra variables take precedence
  EXPECT_EQ(chat.render(input), "<s>你好False[]{'b': 1.0, 'a': None}");
}

TEST(ChatTemplate, RendersTheSameTextEveryTime) {
  const ChatTemplate chat(
      "{% set ns = namespace(n=0) %}{% for i in range(3) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}");
  EXPECT_EQ(chat.render({}), "3");
  EXPECT_EQ(chat.render({}), "3");
}

TEST(ChatTemplate, ReadsTheClock) {
  std::tm time{};
  time.tm_year = 126, time.tm_mon = 1, time.tm_mday = 3, time.tm_hour = 17;
  const ChatTemplate chat("{{ strftime_now('%d %B %Y, %H:%M') }}");
  EXPECT_EQ(chat.render({.now = time}), "03 February 2026, 17:00");
  EXPECT_NE(chat.render({}).find(" 20"), std::string::npos);  // the current time
}

TEST(ChatTemplate, ReportsWhatTheTemplateRefuses) {
  const ChatTemplate chat("\n{{ raise_exception('Roles must\\nalternate') }}");
  try {
    chat.render({});
    FAIL();
  } catch (const TemplateRefusal& refusal) {
    EXPECT_STREQ(refusal.what(), "Roles must\nalternate");
  }
}

TEST(ChatTemplate, ErrorsNameTheLine) {
  EXPECT_EQ(error_of("a\nb\n{{ messages[0].content.x.y }}"),
            "chat template, line 3: 'str object' has no attribute 'x'");
  EXPECT_EQ(error_of("\n{% for m in messages %}\n{{ 'a' + m }}\n{% endfor %}"),
            "chat template, line 3: can only concatenate str (not \"dict\") to str");
  EXPECT_EQ(error_of("{{ x | upper }}\n{{ x() }}"), "chat template, line 2: 'x' is undefined");
  EXPECT_EQ(error_of("{% if 1 %}\n{{ x"), "chat template, line 2: unexpected end of template inside a tag");
}

TEST(ChatTemplate, RejectsMalformedTemplates) {
  const std::pair<const char*, const char*> cases[] = {
      {"{% if 1 %}", "Unexpected end of template. Jinja was looking for the tag 'endif'"},
      {"{% endif %}", "Encountered unknown tag 'endif'."},
      {"{% do x %}", "Encountered unknown tag 'do'."},
      {"{% include 'x' %}", "the tag 'include' is not supported in chat templates"},
      {"{{ 1 + }}", "expected an expression, got end of print statement"},
      {"{{ (1 }}", "unexpected '}'"},
      {"{{ a b }}", "expected end of print statement, got 'b'"},
      {"{{ 'a }}", "a string is not closed"},
      {"{{ ? }}", "unexpected char '?'"},
      {"{# a", "Missing end of comment tag"},
      {"{% raw %}", "Missing end of raw directive"},
      {"{% break %}", "'break' outside of a loop"},
      {"{% for x in y %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}", "'break' outside of a loop"},
      {"{% for x in y %}{% set loop = 1 %}{% endfor %}", "Can't assign to special loop variable in for-loop target"},
      {"{% set 1 = 2 %}", "can't assign to this expression"},
      {"{% macro m(a=1, b) %}{% endmacro %}", "non-default argument follows default argument"},
      {"{% macro m(a, a) %}{% endmacro %}", "duplicate argument in a macro"},
      {"{{ f(a=1, 2) }}", "invalid syntax for function call expression"},
      {"{{ 1 | nosuch }}", "No filter named 'nosuch'."},
      {"{{ 1 is nosuch }}", "No test named 'nosuch'."},
      {"{{ 99999999999999999999 }}", "integers beyond 64 bits are not supported"},
      {"{{ '\\ud800' }}", "a string has an escape that is no character"},
  };
  for (const auto& [source, message] : cases) {
    EXPECT_EQ(error_of(source), std::string("chat template, line 1: ") + message) << source;
  }
  EXPECT_EQ(error_of("\xff"), "chat template: it is not UTF-8");
  EXPECT_EQ(error_of(std::string(5 << 20, 'a')), "chat template: it has more than 4194304 bytes");
}

/// Unlike in Python, where integers have no limit.
TEST(ChatTemplate, IntegersHave64Bits) {
  EXPECT_EQ(render("{{ 9223372036854775807 }} {{ -9223372036854775807 - 1 }}"),
            "9223372036854775807 -9223372036854775808");
  for (const char* source :
       {"9223372036854775807 + 1", "2 ** 63", "3 * 9223372036854775807", "-(-9223372036854775807 - 1)",
        "(-9223372036854775807 - 1) // -1", "'99999999999999999999' | int", "1e30 | int"}) {
    EXPECT_EQ(error_of("{{ " + std::string(source) + " }}"),
              "chat template, line 1: integers beyond 64 bits are not supported")
        << source;
  }
  EXPECT_EQ(error_of("{{ x }}", R"({"x": 18446744073709551615})"),
            "chat template: integers beyond 64 bits are not supported");
}

TEST(ChatTemplate, DataCannotBeChanged) {
  for (const char* source :
       {"messages.append(1)", "messages.clear()", "messages[0].update({})", "messages[0].pop('role')"}) {
    EXPECT_NE(error_of("{{ " + std::string(source) + " }}").find("is unsafe."), std::string::npos) << source;
  }
  EXPECT_EQ(render("{{ messages.append is defined }}{{ ''.__class__ is defined }}{{ messages['__len__'] is defined }}"),
            "FalseFalseFalse");
}

/// Each of these would take very long, or very much memory, without limits.
TEST(ChatTemplate, LimitsWork) {
  const char* hostile[] = {
      "{{ 'a' * 10000000000 }}",
      "{{ [0] * 10000000000 }}",
      "{% for i in range(99999999999) %}{% endfor %}",
      "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
      "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
      "{% macro f() %}{% for i in [1, 2] %}{{ f() }}{% endfor %}{% endmacro %}{{ f() }}",
      "{% set ns = namespace(a='x') %}{% for i in range(100) %}{% set ns.a = ns.a + ns.a %}{% endfor %}",
      "{% set ns = namespace(a=[]) %}{% for i in range(100) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}{{ ns.a }}",
      "{% set n = namespace(a=[], b=[]) %}{% for i in range(99) %}{% set n.a = [n.a, n.a] %}{% set n.b = [n.b, n.b] %}"
      "{% endfor %}{{ n.a == n.b }}",
      "{% set ns = namespace(a=[]) %}{% for i in range(30) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}{{ ns.a | tojson "
      "}}",
      "{% set ns = namespace(a=()) %}{% for i in range(50) %}{% set ns.a = (ns.a, ns.a) %}{% endfor %}{{ {ns.a: 1} }}",
      "{% set ns = namespace(a=[]) %}{% for i in range(100000) %}{% set ns.a = [ns.a] %}{% endfor %}",
      "{% set ns = namespace(a=[1]) %}{% for i in range(100000) %}{% set ns.a = ns.a | map('string') %}{% endfor %}",
      "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}",
      "{{ '%99999999999d' % 1 }}",
      "{{ '%.99999999999f' % 1 }}",
      "{{ '{:>99999999999}'.format(1) }}",
      "{{ '{:.99999999f}'.format(1.5) }}",
      "{{ 'a'.center(99999999999) }}",
      "{{ 'a'.zfill(99999999999) }}",
      "{{ '\\t'.expandtabs(99999999999) }}",
      "{{ 'a' | indent(99999999999) }}",
      "{{ [1] | tojson(indent=99999999999) }}",
      "{{ [1] | batch(99999999999, 0) | list }}",
      "{{ [1] | slice(99999999999) | list }}",
      "{% set a = 'a' * 50000000 %}{% for i in range(1000) %}{{ a.replace('a', 'b') }}{% endfor %}",
      "{% set a = 'a' * 50000000 %}{{ a in a + a }}{{ a in a + a }}{{ a in a + a }}{{ a in a + a }}{{ a in a + a }}",
      "{{ ('a' * 60000) | replace('', 'a' * 60000) }}",
      "{{ ('a' * 60000).join('b' * 60000) }}",
      "{% for i in range(100000) %}{{ 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' * 1000 }}{% endfor %}",
  };
  for (const char* source : hostile) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_TRUE(error_of(source).starts_with("chat template, line 1: "))
        << source << ": " << error_of(source).substr(0, 200);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60)) << source;
  }
}

TEST(ChatTemplate, LimitsTheNestingOfTemplates) {
  const auto repeated = [](const std::string& text, int count) {
    std::string out;
    for (int i = 0; i < count; ++i) out += text;
    return out;
  };
  EXPECT_EQ(error_of("{{ " + repeated("(", 10000) + "1" + repeated(")", 10000) + " }}"),
            "chat template, line 1: the template is nested too deeply");
  EXPECT_EQ(error_of("{{ " + repeated("not ", 100000) + "1 }}"),
            "chat template, line 1: the template is nested too deeply");
  EXPECT_EQ(error_of("{{ " + repeated("-", 100000) + "1 }}"),
            "chat template, line 1: the template is nested too deeply");
  EXPECT_EQ(error_of("{{ 1" + repeated(" + 1", 100000) + " }}"),
            "chat template, line 1: an expression is nested too deeply");
  EXPECT_EQ(error_of("{{ x" + repeated(".a", 100000) + " }}"),
            "chat template, line 1: an expression is nested too deeply");
  EXPECT_EQ(error_of(repeated("{% if 1 %}", 10000)), "chat template, line 1: the template is nested too deeply");
  EXPECT_EQ(render("{{ " + repeated("(", 60) + "1" + repeated(")", 60) + repeated(" + 1", 200) + " }}"), "201");
  EXPECT_EQ(render("{% if 0 %}" + repeated("{% elif 0 %}", 5000) + "{% else %}x{% endif %}"), "x");
}

class ChatFolder : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) { std::ofstream(folder_.file(name)) << text; }
  std::string text(std::string_view name = "default") {
    const auto chat = chat_template_of(folder_.path(), name);
    return chat ? chat->render({.extra = Json::object()}) : "none";
  }
  std::string error(std::string_view name = "default") {
    try {
      return "text: " + text(name);
    } catch (const FormatError& error) {
      return error.what();
    }
  }
  testing::TemporaryFolder folder_;
};

TEST_F(ChatFolder, ReadsTheTokenizersConfig) {
  EXPECT_EQ(text(), "none");
  write("tokenizer_config.json", R"({"bos_token": "<s>"})");
  EXPECT_EQ(text(), "none");
  write("tokenizer_config.json", R"({"chat_template": "{{ bos_token }}{{ eos_token }}{{ pad_token is defined }}",
                                     "bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": false}, "pad_token": null})");
  EXPECT_EQ(text(), "<s></s>False");
  write("special_tokens_map.json", R"({"pad_token": "<pad>", "bos_token": "<other>"})");
  EXPECT_EQ(text(), "<s></s>True");
}

TEST_F(ChatFolder, ChoosesOneOfSeveral) {
  write("tokenizer_config.json",
        R"({"chat_template": [{"name": "default", "template": "a"}, {"name": "tool_use", "template": "b"}]})");
  EXPECT_EQ(text(), "a");
  EXPECT_EQ(text("tool_use"), "b");
  EXPECT_EQ(error("rag"), folder_.file("tokenizer_config.json") + ": there is no chat template 'rag'");
}

TEST_F(ChatFolder, FilesTakePrecedence) {
  write("tokenizer_config.json", R"({"chat_template": "config"})");
  write("chat_template.json", R"({"chat_template": "json"})");
  EXPECT_EQ(text(), "json");
  write("chat_template.jinja", "jinja\n");
  EXPECT_EQ(text(), "jinja");
}

TEST_F(ChatFolder, ErrorsNameTheFile) {
  write("tokenizer_config.json", R"({"chat_template": 5})");
  EXPECT_EQ(error(), folder_.file("tokenizer_config.json") + ": chat_template must be a string or a list, not number");
  write("tokenizer_config.json", R"({"chat_template": [{"name": "default"}]})");
  EXPECT_EQ(error(), folder_.file("tokenizer_config.json") + ": each chat template needs a name and a template");
  write("tokenizer_config.json", "{");
  EXPECT_EQ(error(), folder_.file("tokenizer_config.json") + ": not valid JSON at byte 2");
  write("tokenizer_config.json", R"({"chat_template": "{{"})");
  EXPECT_EQ(error(),
            folder_.file("tokenizer_config.json") + ": chat template, line 1: unexpected end of template inside a tag");
}

TEST_F(ChatFolder, ReadsATemplateOfTheUser) {
  write("tokenizer_config.json", R"({"chat_template": "a", "bos_token": "<s>"})");
  write("mine.jinja", "{{ bos_token }}mine");
  EXPECT_EQ(read_chat_template(folder_.file("mine.jinja"), folder_.path()).render({}), "<s>mine");
  EXPECT_THROW(read_chat_template(folder_.file("absent"), folder_.path()), FormatError);
}

}  // namespace
}  // namespace attend
