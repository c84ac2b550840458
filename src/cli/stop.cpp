#include "cli/stop.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>

namespace attend::cli {
namespace {

std::atomic<int> line_signal{0};
std::atomic<bool> is_answered{false};  // on a terminal a key that was pressed is answered at once

extern "C" void remember_line_signal(int signal) {
  line_signal = signal;
  constexpr char kAnswer[] = "\r\x1b[KStopping after the lines in hand …";
  if (is_answered && write(STDERR_FILENO, kAnswer, sizeof kAnswer - 1) < 0) return;
}

std::atomic<const char*> last_words{""};

extern "C" void end_with_last_words(int signal) {
  const auto say = [](const char* text) { return write(STDERR_FILENO, text, std::strlen(text)) >= 0; };
  if (is_answered) say("\r\x1b[K");
  if (say("attend: ") && say(last_words)) say("\n");
  _exit(128 + signal);
}

void handle_with(void (*handler)(int)) {
  is_answered = isatty(STDERR_FILENO) == 1;
  for (const int signal : {SIGINT, SIGTERM}) {
    struct sigaction before {
    }, action{};
    action.sa_handler = handler;
    action.sa_flags = static_cast<int>(SA_RESETHAND);  // without SA_RESTART: a read that waits ends
    const bool is_ignored = sigaction(signal, nullptr, &before) == 0 && before.sa_handler == SIG_IGN;
    if (!is_ignored) sigaction(signal, &action, nullptr);
  }
}

}  // namespace

void stop_when_signalled() { handle_with(remember_line_signal); }

void say_when_signalled(const char* message) {
  last_words = message;
  handle_with(end_with_last_words);
}

bool is_stop_requested() { return line_signal != 0; }

void check_stop() {
  if (is_stop_requested()) throw StopRequested();
}

void exit_stopped() {
  std::cout.flush();
  std::_Exit(128 + line_signal);
}

}  // namespace attend::cli
