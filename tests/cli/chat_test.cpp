// attend chat, on a small untrained model.
#include <gtest/gtest.h>

#include "attend/text/utf8.h"
#include "cli/chat_testing.h"

namespace attend {
namespace {

using testing::Finished;
using testing::lines_of;
using namespace std::string_literals;

TEST_F(Chat, AnswersEachLineWithTheWholeConversation) {
  const auto turns = answers("the fox\n今天\n", {"--system", "a dog"});
  ASSERT_EQ(turns.size(), 2u);
  const std::string first = turns[0]["content"].string();
  EXPECT_EQ(turns[0]["role"].string(), "assistant");
  EXPECT_EQ(turns[0]["tokens"].integer(), 8);
  EXPECT_EQ(turns[0]["ending"].string(), "length");
  EXPECT_EQ(first, continued("s: a dog\nu: the fox\na:"));
  EXPECT_EQ(turns[1]["content"].string(), continued("s: a dog\nu: the fox\na: " + first + "\nu: 今天\na:"));
}

TEST_F(Chat, PrintsOnlyAnswersToAPipe) {
  const auto turns = answers("the fox\n\n   \nthe dog");
  const Finished run = chat("the fox\n\n   \nthe dog", {"--greedy", "--tokens", "8"});
  EXPECT_EQ(run.out, turns[0]["content"].string() + "\n" + turns[1]["content"].string() + "\n");
  EXPECT_EQ(run.err, "");
  EXPECT_TRUE(is_utf8(chat("今天\n", {"--tokens", "60", "--temperature", "3"}).out));
}

TEST_F(Chat, SamplesDifferentlyInEachTurnAndEquallyInEachRun) {
  const Words sampling{"--temperature", "2", "--tokens", "20", "--seed", "5"};
  const std::string once = chat("a\n/reset\na\n", sampling).out;
  EXPECT_EQ(chat("a\n/reset\na\n", sampling).out, once);
  EXPECT_NE(once.substr(0, once.size() / 2), once.substr(once.size() / 2));
}

TEST_F(Chat, ReadsSeveralLinesAsOneTurn) {
  const int64_t one = prompt_tokens("the\n");
  EXPECT_EQ(prompt_tokens("the\\\nfox\n"), one + 4);                // the, a line break, fox
  EXPECT_EQ(prompt_tokens("the\\\n"), one + 1);                     // ends inside
  EXPECT_EQ(prompt_tokens("\"\"\"\nthe\nfox\n\"\"\"\n"), one + 4);  // line breaks beside the quotes do not count
  EXPECT_EQ(prompt_tokens("\"\"\"the\n\nfox\"\"\"\n"), one + 5);    // an empty line counts
  EXPECT_EQ(prompt_tokens("\"\"\"the\"\"\"\n"), one);
  EXPECT_EQ(prompt_tokens("\"\"\"the"), one);
  EXPECT_EQ(prompt_tokens("the\r\n"), one);
  EXPECT_EQ(answers("\"\"\"the\nfox\"\"\"\nthe\\\nfox\n").size(), 2u);
}

TEST_F(Chat, SavesAndLoadsTheConversation) {
  const std::string file = path("saved.json");
  const auto turns = answers("the fox\n/save " + file + "\n", {"--system", "a dog"});
  const Json saved = Json::parse(testing::file_text(file));
  const Json expected{{{"role", "system"}, {"content", "a dog"}},
                      {{"role", "user"}, {"content", "the fox"}},
                      {{"role", "assistant"}, {"content", turns[0]["content"]}}};
  EXPECT_EQ(saved, expected) << saved;
  const auto whole = answers("the fox\nthe dog\n", {"--system", "a dog"});
  EXPECT_EQ(answers("/load " + file + "\nthe dog\n").back(), whole.back());
  write("wrapped.json", R"({"messages": )" + saved.dump() + "}");
  EXPECT_EQ(answers("/load " + path("wrapped.json") + "\nthe dog\n").back(), whole.back());
}

TEST_F(Chat, LoadsOnlyConversations) {
  const std::string user = R"({"role": "user", "content": "the"})",
                    answer = R"({"role": "assistant", "content": "fox"})",
                    system = R"({"role": "system", "content": "a dog"})", tool = R"({"role": "tool", "content": "x"})",
                    call = R"({"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f"}}]})";
  const std::vector<std::pair<std::string, std::string>> wrong{
      {"5", "expected a JSON list of messages"},
      {R"({"messages": {}})", "expected a JSON list of messages"},
      {"[" + user + ", 5]", "message 2: expected an object with role and content, got number"},
      {R"([{"content": "x"}])", "message 1: role is missing"},
      {R"([{"role": 1, "content": "x"}])", "message 1: role must be a string, not number"},
      {R"([{"role": "bot", "content": "x"}])", "message 1: role must be system, user, assistant or tool, not 'bot'"},
      {R"([{"role": "user"}])", "message 1: content is missing"},
      {"[" + user + R"(, {"role": "assistant", "content": 5}])", "message 2: content must be a string, not number"},
      {R"([{"role": "user", "content": null}])", "message 1: content must be a string, not null"},
      {"[" + answer + "]", "message 1: expected role system or user, got assistant"},
      {"[" + system + "," + system + "]", "message 2: expected role user, got system"},
      {"[" + user + "," + answer + "," + answer + "]", "message 3: expected role user, got assistant"},
      {"[" + user + "," + user + "]", "message 2: expected role assistant, got user"},
      {"[" + user + "," + answer + "," + tool + "]", "message 3: expected role user, got tool"},
      {"[" + user + "," + call + "," + user + "]", "message 3: expected role tool, got user"},
      {"[" + user + "," + answer + "," + user + "]",
       "message 3 is the last one, but an answer (role assistant) must follow it"}};
  for (const auto& [content, fault] : wrong) {
    const Finished run = chat("/load " + write("wrong.json", content) + "\nthe\n", {"--tokens", "2"});
    EXPECT_EQ(run.code, 1);
    EXPECT_EQ(run.err, "attend: " + path("wrong.json") + ": " + fault + "\n") << content;
  }
  for (const std::string& content :
       {"[]"s, "[" + system + "]", "[" + user + "," + answer + "]",
        "[" + system + "," + user + "," + call + "," + tool + "," + tool + "," + answer + "]"}) {
    const Finished run = chat("/load " + write("right.json", content) + "\n");
    EXPECT_EQ(run.code, 0) << content << run.err;
  }
}

TEST_F(Chat, ReplacesOnlyItsOwnFile) {
  const std::string old = write("old.json", "precious"), own = path("own.json");
  const auto run = [](const std::string& input) { return chat(input, {"--tokens", "2"}); };
  const auto refusal = [](const std::string& file) {
    return "attend: " + file + " already exists; /save! " + file + " replaces it\n";
  };
  EXPECT_EQ(run("the\n/save " + old + "\n").err, refusal(old));
  EXPECT_EQ(testing::file_text(old), "precious");
  const Finished twice = run("the\n/save " + own + "\nfox\n/save " + path(".") + "/own.json\n");
  EXPECT_EQ(twice.code, 0) << twice.err;
  EXPECT_EQ(Json::parse(testing::file_text(own)).size(), 4u);
  EXPECT_EQ(run("/load " + own + "\nthe\n/save " + own + "\n").err, "");
  EXPECT_EQ(Json::parse(testing::file_text(own)).size(), 6u);
  EXPECT_EQ(run("/load " + own + "\n/reset\nthe\n/save " + own + "\n").err, refusal(own)) << "a new conversation";
  EXPECT_EQ(run("the\n/save " + path("other.json") + "\n/save " + own + "\n").err, refusal(own));
  EXPECT_EQ(run("the\n/save! " + old + "\n").err, "");
  EXPECT_EQ(Json::parse(testing::file_text(old)).size(), 2u);
}

TEST_F(Chat, CommandsChangeTheConversation) {
  const int64_t alone = prompt_tokens("the\n");
  EXPECT_EQ(prompt_tokens("fox\n/reset\nthe\n"), alone);
  EXPECT_EQ(prompt_tokens("/system a dog\nthe\n"), prompt_tokens("the\n", {"--system", "a dog"}));
  EXPECT_EQ(prompt_tokens("/system none\nthe\n", {"--system", "a dog"}), alone);
  EXPECT_EQ(prompt_tokens("fox\n/reset\nthe\n", {"--system", "a dog"}), prompt_tokens("the\n", {"--system", "a dog"}));
  EXPECT_EQ(prompt_tokens("//the\n"), alone + 1);
  EXPECT_EQ(chat("/quit\nthe\n").out, "");
  EXPECT_EQ(chat("/help\n").out, "");
  EXPECT_NE(chat("/help\n").err.find("/save FILE"), std::string::npos);
}

TEST_F(Chat, GivesTheTemplateItsVariables) {
  EXPECT_EQ(prompt_tokens("the\n", {"--set", "mood=quick"}), prompt_tokens("the\n") + 5);
  EXPECT_EQ(prompt_tokens("the\n", {"--set", "mood=[1]"}), prompt_tokens("the\n") + 3);
  const std::string own = write("own.jinja", "{{ messages[-1].content }}");
  EXPECT_EQ(prompt_tokens("the\n", {"--template", own}), 3);
  EXPECT_EQ(answers("the\n", {"--template", own})[0]["content"].string(), continued("the"));
}

TEST_F(Chat, ReportsErrorsInOneLine) {
  const auto error = [](const Finished& run, int code) {
    EXPECT_EQ(run.code, code);
    EXPECT_EQ(lines_of(run.err).size(), 1u) << run.err;
    return run.err;
  };
  EXPECT_EQ(error(chat("", {}, "plain"), 1), "attend: " + path("plain") +
                                                 ": this model has no chat template; --template FILE "
                                                 "gives one, and attend generate continues texts without one\n");
  EXPECT_EQ(
      error(chat("", {"--greedy", "--top-k", "3"}), 2),
      "attend: --greedy cannot be combined with --temperature and other sampling options; see attend chat --help\n");
  EXPECT_EQ(error(chat("", {"--set", "x"}), 2),
            "attend: --set: expected NAME=VALUE, got 'x'; see attend chat --help\n");
  EXPECT_EQ(error(chat("a\n\xff\n", {"--tokens", "2"}), 1), "attend: standard input, line 2: expected UTF-8\n");
  EXPECT_EQ(error(chat("/nosuch\n"), 1),
            "attend: unknown command /nosuch; /help lists the commands, //nosuch sends the text\n");
  EXPECT_EQ(error(chat("/save\n"), 1), "attend: /save needs the name of a file\n");
  EXPECT_EQ(error(chat("/load " + path("absent") + "\n"), 1).find("attend: " + path("absent") + ": "), 0u);
  write("tool.json", R"([{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": [{"function": {}}]},
                         {"role": "tool", "content": "x"}, {"role": "assistant", "content": "x"}])");
  EXPECT_EQ(error(chat("/load " + path("tool.json") + "\nthe\n"), 1), "attend: no tools here\n");
  write("broken.jinja", "{% if %}");
  EXPECT_EQ(error(chat("", {"--template", path("broken.jinja")}), 1),
            "attend: " + path("broken.jinja") +
                ": chat template, line 1: expected an expression, got end of statement block\n");
}

TEST_F(Chat, TellsThatTheContextIsFull) {
  const std::string words(250, 'a');
  const Finished refused = chat("the\n" + words + "\n", {"--tokens", "4"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_EQ(lines_of(refused.out).size(), 1u) << "the answer before stays";
  EXPECT_EQ(refused.err,
            "attend: this message was not sent: the conversation has 269 tokens with it, but the context of the model "
            "holds 200; shorten it, or /save FILE keeps the conversation and /reset starts a new one\n");
  const Finished cut = chat(std::string(150, 'a') + "\n", {"--temperature", "0"});
  EXPECT_EQ(cut.code, 0);
  if (lines_of(cut.err).size() == 1) {
    EXPECT_TRUE(cut.err.starts_with("attend: the context is full, so that the answer is cut.")) << cut.err;
  }
}

TEST_F(Chat, HelpShowsAnExample) {
  const Finished help = testing::run({ATTEND_BINARY_DIR "/attend", "chat", "--help"});
  EXPECT_NE(help.out.find("Examples:\n  attend chat"), std::string::npos);
  for (const char* option : {"--system", "--template", "--json", "--device", "--top-p", "--stop"}) {
    EXPECT_NE(help.out.find(option), std::string::npos) << option;
  }
}

}  // namespace
}  // namespace attend
