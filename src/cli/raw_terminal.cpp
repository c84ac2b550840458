#include "cli/raw_terminal.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "attend/base/error.h"

namespace attend::cli {
namespace {

// The signal handler reads these.
termios modes_before, modes_now;
std::atomic<bool> is_raw{false};

constexpr std::string_view kPasteOn = "\x1b[?2004h", kPasteOff = "\x1b[?2004l", kWrapRows = "\x1b[?7h";

void print(std::string_view text) {
  // If the terminal cannot be written, there is nowhere to report that.
  [[maybe_unused]] const ssize_t written = write(STDOUT_FILENO, text.data(), text.size());
}

void apply() {
  is_raw = true;
  tcsetattr(STDIN_FILENO, TCSANOW, &modes_now);
  print(kPasteOn);
}

/// Restores the terminal, and then lets the signal have its default effect.
extern "C" void restore_and_raise(int signal) {
  const int before = errno;
  const bool was_raw = is_raw;
  RawTerminal::restore();
  struct sigaction own {
  }, standard{};
  standard.sa_handler = SIG_DFL;
  sigaction(signal, &standard, &own);
  sigset_t only, blocked;
  sigemptyset(&only);
  sigaddset(&only, signal);
  raise(signal);
  pthread_sigmask(SIG_UNBLOCK, &only, &blocked);  // the signal arrives here; after Ctrl-Z, the process may continue
  pthread_sigmask(SIG_SETMASK, &blocked, nullptr);
  sigaction(signal, &own, nullptr);
  if (was_raw) apply();
  errno = before;
}

/// Signals that are ignored or handled stay so.
void handle_signals() {
  for (const int signal : {SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGABRT, SIGSEGV, SIGFPE, SIGILL}) {
    struct sigaction before {
    }, action{};
    if (sigaction(signal, nullptr, &before) != 0 || (before.sa_flags & SA_SIGINFO) != 0) continue;
    if (before.sa_handler != SIG_DFL) continue;
    action.sa_handler = restore_and_raise;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, nullptr);
  }
}

void set(bool with_signals) {
  termios modes = modes_before;
  modes.c_iflag &= ~static_cast<tcflag_t>(ICRNL | INLCR | IGNCR | ISTRIP);
  modes.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | IEXTEN);
  if (!with_signals) {
    modes.c_iflag &= ~static_cast<tcflag_t>(IXON);
    modes.c_lflag &= ~static_cast<tcflag_t>(ISIG);
  }
  modes.c_cc[VMIN] = 1;
  modes.c_cc[VTIME] = 0;
  modes_now = modes;
  if (is_raw) {
    tcsetattr(STDIN_FILENO, TCSANOW, &modes_now);
  } else {
    apply();
  }
}

}  // namespace

bool RawTerminal::is_supported() {
  const char* name = std::getenv("TERM");
  const std::string_view term = name == nullptr ? "" : name;
  return isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1 && !term.empty() && term != "dumb";
}

RawTerminal::RawTerminal() {
  require<Error>(tcgetattr(STDIN_FILENO, &modes_before) == 0, "cannot read the modes of the terminal");
  static const bool is_prepared = [] {
    handle_signals();
    return std::atexit([] { restore(); }) == 0;
  }();
  static_cast<void>(is_prepared);
  read_signals();
}

RawTerminal::~RawTerminal() { restore(); }

void RawTerminal::read_keys() { set(false); }
void RawTerminal::read_signals() { set(true); }

ScreenSize RawTerminal::size() const {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
  return {size.ws_col, size.ws_row};
}

void RawTerminal::suspend() { raise(SIGTSTP); }

void RawTerminal::restore() {
  if (!is_raw.exchange(false)) return;
  if (tcgetpgrp(STDIN_FILENO) != getpgrp()) return;  // the terminal belongs to another program now
  print(kWrapRows);
  print(kPasteOff);
  tcsetattr(STDIN_FILENO, TCSANOW, &modes_before);
}

}  // namespace attend::cli
