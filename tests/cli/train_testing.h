#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "train/train_testing.h"

// Helpers to run `attend train`.
namespace attend::testing {

using Words = std::vector<std::string>;

inline Words train_command(const Words& words) {
  Words command{ATTEND_BINARY_DIR "/attend", "train"};
  command.insert(command.end(), words.begin(), words.end());
  return command;
}
inline Finished train(const Words& words, const ProcessOptions& options = {}) {
  return run(train_command(words), options);
}

inline Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// Options for the smallest model of each architecture.
inline const Words kTinyTransformer{
    "--tokenizer",      "char", "--dim", "16", "--heads", "2", "--ffn-dim", "32", "--encoder-layers", "1",
    "--decoder-layers", "1"};
inline const Words kTinyGpt{"--tokenizer", "char", "--dim", "16", "--heads", "2", "--layers", "1", "--context", "16"};
inline const Words kTinyRnn{"--tokenizer", "char", "--dim", "16", "--state-dim", "16"};

/// Expects the exit code, and exactly one line of error, `attend: …`.
inline void expect_one_line(const Finished& result, int code) {
  EXPECT_EQ(result.code, code) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_TRUE(result.err.starts_with("attend: ")) << result.err;
  EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
}

inline Words names_in(const std::string& folder) {
  Words names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

/// A training that runs in the background of the test.
class Running {
 public:
  explicit Running(const Words& command) : pid_(fork()) {
    if (pid_ != 0) return;
    dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
    dup2(open(folder_.file("out").c_str(), O_WRONLY | O_CREAT, 0600), STDOUT_FILENO);
    dup2(open(folder_.file("err").c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
    execute(command, {});
  }
  ~Running() {
    if (pid_ > 0) end(SIGKILL);
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  pid_t pid() const { return pid_; }
  std::string out() const { return file_text(folder_.file("out")); }  ///< so far
  std::string err() const { return file_text(folder_.file("err")); }
  /// Waits for the process to exit.
  Finished wait() { return end(0); }
  /// Sends a signal and waits for the process to exit.
  Finished end(int signal) {
    kill(pid_, signal);
    const int code = exit_code(std::exchange(pid_, -1));
    return {code, file_text(folder_.file("out")), file_text(folder_.file("err"))};
  }

 private:
  TemporaryFolder folder_;
  pid_t pid_;
};

inline void sleep_for(int milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }

/// Waits until the condition is true. False after a minute.
template <class Condition>
bool wait_until(Condition&& condition) {
  for (int i = 0; i < 6000; ++i, sleep_for(10)) {
    if (condition()) return true;
  }
  return false;
}

}  // namespace attend::testing
