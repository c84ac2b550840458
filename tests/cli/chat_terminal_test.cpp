// attend chat on a terminal.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>

#include <chrono>

#include "cli/chat_testing.h"

namespace attend {
namespace {

/// The command with a terminal as its input and output.
class OnTerminal {
 public:
  explicit OnTerminal(const Words& words, const std::string& term = "xterm") {
    terminal_ = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    grantpt(terminal_), unlockpt(terminal_);
    const std::string name = ptsname(terminal_);
    slave_ = open(name.c_str(), O_RDWR | O_NOCTTY);
    resize(80);
    child_ = fork();
    if (child_ == 0) {
      setsid();
      const int slave = open(name.c_str(), O_RDWR);
      ioctl(slave, TIOCSCTTY, 0);
      for (const int to : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(slave, to);
      testing::execute(words, {.environment = {{"TERM", term}}});
    }
  }
  ~OnTerminal() {
    if (child_ > 0) kill(child_, SIGKILL), testing::exit_code(child_);
    close(slave_), close(terminal_);
  }

  void type(const std::string& text) { EXPECT_EQ(::write(terminal_, text.data(), text.size()), std::ssize(text)); }
  /// Waits until the program prints `part` ("": anything), and forgets the text up to its end. Sequences that move the
  /// cursor or erase are not part of the text.
  void wait_for(const std::string& part) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (std::chrono::steady_clock::now() < end) {
      const size_t at = text_.empty() ? std::string::npos : text_.find(part);
      if (at != std::string::npos) return void(text_.erase(0, at + part.size()));
      pollfd waiting{.fd = terminal_, .events = POLLIN, .revents = 0};
      if (poll(&waiting, 1, 1000) <= 0) continue;
      char buffer[4096];
      const ssize_t count = read(terminal_, buffer, sizeof buffer);
      if (count <= 0) break;
      for (const char byte : std::string_view(buffer, static_cast<size_t>(count))) add(byte);
    }
    ADD_FAILURE() << "no '" << part << "' in: " << text_;
  }
  void resize(int columns) {
    const winsize size{.ws_row = 24, .ws_col = static_cast<unsigned short>(columns), .ws_xpixel = 0, .ws_ypixel = 0};
    ioctl(terminal_, TIOCSWINSZ, &size);
  }
  /// Whether the terminal itself edits lines and shows what is typed.
  bool edits_itself() const {
    termios modes{};
    tcgetattr(slave_, &modes);
    return (modes.c_lflag & ICANON) != 0 && (modes.c_lflag & ECHO) != 0 && (modes.c_lflag & ISIG) != 0 &&
           (modes.c_iflag & ICRNL) != 0;
  }
  void send(int signal) const { kill(child_, signal); }
  int ending_signal() {
    int status = 0;
    waitpid(std::exchange(child_, -1), &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }
  int exit_code() { return testing::exit_code(std::exchange(child_, -1)); }

 private:
  void add(char byte) {
    const bool is_repeated = byte == '\r' && text_.ends_with('\r');  // the terminal itself adds \r before \n
    if (is_repeated) return;
    if (sequence_.empty() && byte != '\x1b') return void(text_ += byte);
    sequence_ += byte;
    if (sequence_.size() > 2 && std::isalpha(static_cast<unsigned char>(byte))) sequence_.clear();
  }

  int terminal_ = -1, slave_ = -1;
  pid_t child_ = -1;
  std::string text_, sequence_;
};

Words command(const std::string& model, const Words& more = {"--tokens", "5"}) {
  Words words{ATTEND_BINARY_DIR "/attend", "chat", model, "--greedy", "--device", "cpu"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

class ChatTerminal : public Chat {
 protected:
  /// The messages of a file that /save wrote.
  static std::vector<std::string> contents(const std::string& file) {
    std::vector<std::string> result;
    for (const Json& message : Json::parse(testing::file_text(file))) result.push_back(message["content"].string());
    return result;
  }
};

TEST_F(ChatTerminal, Talks) {
  OnTerminal chat(command(path("chat")));
  chat.wait_for("/help lists the commands; Ctrl-D quits.\r\n> ");
  chat.type("今天\r");
  chat.wait_for("> 今天\r\n");
  chat.wait_for("\n> ");
  chat.type("/nosuch\r");
  chat.wait_for("attend: unknown command /nosuch");
  chat.wait_for("> ");
  chat.type("/system a dog\r");
  chat.wait_for("System prompt set.\r\n> ");
  EXPECT_FALSE(chat.edits_itself());
  chat.type("\x04");
  EXPECT_EQ(chat.exit_code(), 0);
  EXPECT_TRUE(chat.edits_itself());
}

TEST_F(ChatTerminal, EditsTheLine) {
  OnTerminal chat(command(path("chat")));
  chat.wait_for("> ");
  chat.type("abc\x1b[D\x1b[DX\r");
  chat.wait_for("> aXbc\r\n");
  chat.wait_for("\n> ");
  chat.type("今天好\x1b[D\x7f很\r");
  chat.wait_for("> 今很好\r\n");
  chat.wait_for("\n> ");
  chat.resize(9);
  chat.type("\x1b[A\x1b[A!\r");
  chat.wait_for("\n> ");
  chat.type("/save " + path("edited.json") + "\r");
  chat.wait_for("6 messages saved");
  const auto saved = contents(path("edited.json"));
  EXPECT_EQ(saved[0], "aXbc");
  EXPECT_EQ(saved[2], "今很好");
  EXPECT_EQ(saved[4], "aXbc!");
}

TEST_F(ChatTerminal, APastedTextIsOneMessage) {
  OnTerminal chat(command(path("chat")));
  chat.wait_for("> ");
  chat.type("\x1b[200~/the\rfox\r今天\r\x1b[201~\r");
  chat.wait_for("> /the\r\n. fox\r\n. 今天\r\n");
  chat.wait_for("\n> ");
  chat.type("/save " + path("pasted.json") + "\r");
  chat.wait_for("2 messages saved");
  EXPECT_EQ(contents(path("pasted.json"))[0], "/the\nfox\n今天");
}

TEST_F(ChatTerminal, BringsBackAMessageThatDoesNotFit) {
  OnTerminal chat(command(path("chat")));
  chat.wait_for("> ");
  chat.type(std::string(250, 'a') + "\r");
  chat.wait_for(
      "this message was not sent: the conversation has 256 tokens with it, but the context of the model holds "
      "200; shorten it, or /save FILE keeps the conversation and /reset starts a new one (Up brings the "
      "message back)\r\n> ");
  chat.type("\x1b[A");
  chat.wait_for(std::string(78, 'a'));
  for (int i = 0; i < 240; ++i) chat.type("\x7f");
  chat.type("\r");
  chat.wait_for("> " + std::string(10, 'a') + "\r\n");
  chat.wait_for("\n> ");
  chat.type("/save " + path("shorter.json") + "\r");
  chat.wait_for("2 messages saved");
  EXPECT_EQ(contents(path("shorter.json"))[0], std::string(10, 'a'));
}

TEST_F(ChatTerminal, CtrlCEndsTheAnswerAndNotTheProgram) {
  OnTerminal chat(command(path("long"), {}));
  chat.wait_for("> ");
  chat.type("the fox\r");
  chat.wait_for("> the fox\r\n");
  chat.wait_for("");  // the beginning of the answer, which would have some thousand tokens
  chat.type("\x03");
  chat.wait_for("\n> ");
  chat.type("/save " + path("partial.json") + "\r");
  chat.wait_for("2 messages saved");
  chat.wait_for("> ");
  chat.type("half a line\x03");
  chat.wait_for("half a line^C\r\n> ");
  chat.type("\x03");
  chat.wait_for("(Press Ctrl-C again, or Ctrl-D, to quit.)");
  chat.wait_for("> ");
  chat.type("\x03");
  EXPECT_EQ(chat.exit_code(), 0);
  EXPECT_TRUE(chat.edits_itself());
  const Json saved = Json::parse(testing::file_text(path("partial.json")));
  EXPECT_EQ(saved[1]["role"].string(), "assistant");
}

TEST_F(ChatTerminal, RestoresTheTerminalOnASignal) {
  for (const int signal : {SIGTERM, SIGHUP, SIGQUIT, SIGABRT}) {
    OnTerminal chat(command(path("chat")));
    chat.wait_for("> ");
    chat.type("the");
    chat.wait_for("the");
    EXPECT_FALSE(chat.edits_itself());
    chat.send(signal);
    EXPECT_EQ(chat.ending_signal(), signal);
    EXPECT_TRUE(chat.edits_itself()) << signal;
  }
}

TEST_F(ChatTerminal, RestoresTheTerminalIfTheModelIsTruncated) {
  make("truncated", 200);
  write("truncated/chat_template.jinja", kTemplate);
  OnTerminal chat(command(path("truncated")));
  chat.wait_for("> ");
  std::ofstream(path("truncated/model.safetensors"), std::ios::trunc).close();
  chat.type("the\r");
  chat.wait_for("the file was truncated while in use");
  EXPECT_EQ(chat.exit_code(), 1);
  EXPECT_TRUE(chat.edits_itself());
}

TEST_F(ChatTerminal, CtrlZStopsAndContinues) {
  OnTerminal chat(command(path("chat")));
  chat.wait_for("> ");
  chat.type("the\x1a");
  // The process group has no shell that could continue it, so that Ctrl-Z has no effect there, but the modes are set.
  chat.wait_for("> the\r\n> the");
  EXPECT_FALSE(chat.edits_itself());
  chat.type(" fox\r");
  chat.wait_for("> the fox\r\n");
}

TEST_F(ChatTerminal, ReadsLinesOfATerminalThatCannotMoveItsCursor) {
  OnTerminal chat(command(path("chat")), "dumb");
  chat.wait_for("> ");
  EXPECT_TRUE(chat.edits_itself());
  chat.type("the\n");
  chat.wait_for("the\r\n");
  chat.wait_for("\n> ");
  chat.type("\x03");
  chat.wait_for("(Press Ctrl-C again, or Ctrl-D, to quit.)");
  chat.wait_for("> ");
  chat.type("\x04");
  EXPECT_EQ(chat.exit_code(), 0);
}

}  // namespace
}  // namespace attend
