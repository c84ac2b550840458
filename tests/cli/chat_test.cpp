// attend chat, on a small untrained model.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>

#include <chrono>
#include <filesystem>

#include "attend/io/json.h"
#include "attend/models/registry.h"
#include "attend/text/tokenizer.h"
#include "attend/text/utf8.h"
#include "testing/process.h"

namespace attend {
namespace {

using testing::Finished;
using testing::lines_of;
using testing::TemporaryFolder;
using Words = std::vector<std::string>;

constexpr const char* kTemplate =
    "{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no tools here') }}{% endif %}"
    "{{ m.role[0] }}: {{ m.content }}\n{% endfor %}{{ mood | default('') }}a:";

class Chat : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>();
    make("plain", 64);
    make("chat", 200);
    make("long", 6000);
    write("chat/chat_template.jinja", kTemplate);
    write("long/chat_template.jinja", kTemplate);
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static void make(const std::string& name, int64_t context) {
    size_t next = 0;
    const std::vector<std::string> corpus{"the quick brown fox jumps over a lazy dog: USA.\n",
                                          "今天天气很好，我们去公园。"};
    const auto tokenizer = train_tokenizer(
        [&]() -> std::optional<std::string> {
          return next < corpus.size() ? std::optional(corpus[next++]) : std::nullopt;
        },
        {.kind = TokenizerKind::characters, .vocabulary = 200, .min_count = 1});
    Rng rng{3};
    const auto model =
        create_model(with_settings(preset_config("gpt", "tiny"), {{"vocab_size", std::to_string(tokenizer->size())},
                                                                  {"dim", "16"},
                                                                  {"heads", "2"},
                                                                  {"layers", "2"},
                                                                  {"context", std::to_string(context)}}),
                     rng);
    save_model(*model, path(name));
    tokenizer->save(path(name));
  }

  static std::string path(const std::string& name) { return folder_->file(name); }
  static std::string write(const std::string& name, const std::string& content) {
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }
  static Finished chat(const std::string& input, Words more = {}, const std::string& model = "chat") {
    Words words{ATTEND_BINARY_DIR "/attend", "chat", path(model), "--device", "cpu"};
    words.insert(words.end(), more.begin(), more.end());
    return testing::run(words, {.input = input});
  }
  /// The answers of --json.
  static std::vector<Json> answers(const std::string& input, Words more = {}) {
    more.insert(more.end(), {"--json", "--greedy", "--tokens", "8"});
    const Finished run = chat(input, more);
    EXPECT_EQ(run.code, 0) << run.err;
    std::vector<Json> result;
    for (const std::string& line : lines_of(run.out)) result.push_back(Json::parse(line));
    return result;
  }
  static int64_t prompt_tokens(const std::string& input, Words more = {}) {
    return answers(input, std::move(more)).back()["prompt_tokens"].integer();
  }
  /// What `attend generate` writes after a prompt.
  static std::string continued(const std::string& prompt) {
    const Finished run = testing::run({ATTEND_BINARY_DIR "/attend", "generate", path("chat"), "--whole-text",
                                       "--greedy", "--tokens", "8", "--json", "--device", "cpu"},
                                      {.input = prompt});
    EXPECT_EQ(run.code, 0) << run.err;
    return Json::parse(run.out)["text"].string();
  }

  static std::unique_ptr<TemporaryFolder> folder_;
};
std::unique_ptr<TemporaryFolder> Chat::folder_;

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
  write("bad.json", R"([{"content": "x"}])");
  EXPECT_EQ(error(chat("/load " + path("bad.json") + "\n"), 1),
            "attend: " + path("bad.json") + ": each message needs a role\n");
  write("tool.json", R"([{"role": "tool", "content": "x"}])");
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
  EXPECT_NE(refused.err.find(
                "tokens, but the context of the model holds 200; /save FILE keeps it, /reset starts a new one\n"),
            std::string::npos)
      << refused.err;
  const Finished cut = chat(std::string(150, 'a') + "\n", {"--temperature", "0"});
  EXPECT_EQ(cut.code, 0);
  if (lines_of(cut.err).size() == 1) {
    EXPECT_TRUE(cut.err.starts_with("attend: the context is full, so that the answer is cut.")) << cut.err;
  }
}

/// The command with a terminal as its input and output.
class OnTerminal {
 public:
  explicit OnTerminal(const Words& words) {
    terminal_ = posix_openpt(O_RDWR | O_NOCTTY);
    grantpt(terminal_), unlockpt(terminal_);
    const std::string name = ptsname(terminal_);
    child_ = fork();
    if (child_ == 0) {
      setsid();
      const int slave = open(name.c_str(), O_RDWR);
      ioctl(slave, TIOCSCTTY, 0);
      for (const int to : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(slave, to);
      testing::execute(words, {});
    }
  }
  ~OnTerminal() {
    if (child_ > 0) kill(child_, SIGKILL), testing::exit_code(child_);
    close(terminal_);
  }

  void type(const std::string& text) { EXPECT_EQ(::write(terminal_, text.data(), text.size()), std::ssize(text)); }
  /// Waits until the program prints `part` ("": anything), and forgets the text up to its end.
  void wait_for(const std::string& part) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (std::chrono::steady_clock::now() < end) {
      const size_t at = text_.empty() ? std::string::npos : text_.find(part);
      if (at != std::string::npos) return void(text_.erase(0, at + part.size()));
      pollfd waiting{.fd = terminal_, .events = POLLIN, .revents = 0};
      if (poll(&waiting, 1, 1000) <= 0) continue;
      char buffer[4096];
      const ssize_t count = read(terminal_, buffer, sizeof buffer);
      if (count <= 0) break;
      text_.append(buffer, static_cast<size_t>(count));
    }
    ADD_FAILURE() << "no '" << part << "' in: " << text_;
  }
  int exit_code() { return testing::exit_code(std::exchange(child_, -1)); }

 private:
  int terminal_ = -1;
  pid_t child_ = -1;
  std::string text_;
};

TEST_F(Chat, TalksOnATerminal) {
  OnTerminal chat({ATTEND_BINARY_DIR "/attend", "chat", path("chat"), "--tokens", "5", "--greedy", "--device", "cpu"});
  chat.wait_for("/help lists the commands; Ctrl-D quits.\r\n> ");
  chat.type("今天\n");
  chat.wait_for("\n> ");
  chat.type("/nosuch\n");
  chat.wait_for("attend: unknown command /nosuch");
  chat.wait_for("> ");
  chat.type("/system a dog\n");
  chat.wait_for("System prompt set.\r\n> ");
  chat.type(std::string(250, 'a') + "\n");
  chat.wait_for("but the context of the model holds 200; /save FILE keeps it, /reset starts a new one\r\n> ");
  chat.type("\x04");
  EXPECT_EQ(chat.exit_code(), 0);
}

TEST_F(Chat, CtrlCEndsTheAnswerAndNotTheProgram) {
  OnTerminal chat({ATTEND_BINARY_DIR "/attend", "chat", path("long"), "--greedy", "--device", "cpu"});
  chat.wait_for("> ");
  chat.type("the fox\n");
  chat.wait_for("the fox\r\n");
  chat.wait_for("");  // the beginning of the answer, which would have some thousand tokens
  chat.type("\x03");
  chat.wait_for("\n> ");
  chat.type("/save " + path("partial.json") + "\n");
  chat.wait_for("2 messages saved");
  chat.wait_for("> ");
  chat.type("\x03");
  chat.wait_for("(Press Ctrl-C again, or Ctrl-D, to quit.)");
  chat.wait_for("> ");
  chat.type("\x03");
  EXPECT_EQ(chat.exit_code(), 0);
  const Json saved = Json::parse(testing::file_text(path("partial.json")));
  EXPECT_EQ(saved[1]["role"].string(), "assistant");
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
