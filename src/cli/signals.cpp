#include "cli/signals.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <iostream>

#include "cli/raw_terminal.h"
#include "distributed/group.h"
#include "io/mapped_file.h"

namespace attend::cli {
namespace {

constexpr char kClearLine[] = "\r\x1b[K";

std::atomic<bool> stop_requested{false};
std::atomic<int> stop_signal{0};
std::atomic<bool> is_terminal{false};  // standard error is a terminal and may show a status line
std::atomic<const char*> message{nullptr};
std::atomic<bool> interrupted{false};

void write_text(const char* text) {
  // If standard error cannot be written, there is nowhere to report that.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, std::strlen(text));
}

void request_stop(int signal) {
  stop_signal = signal;
  stop_requested = true;
}

extern "C" void stop_lines(int signal) {
  const int before = errno;
  request_stop(signal);
  if (is_terminal) {
    write_text(kClearLine);
    write_text("Stopping after the current lines …");
  }
  errno = before;
}

extern "C" void stop_and_save(int signal) {
  const int before = errno;
  request_stop(signal);
  if (const char* line = message.exchange(nullptr)) {
    if (is_terminal) write_text("\n");
    write_text(line);
    write_text("\n");
  }
  errno = before;
}

extern "C" void set_interrupted(int) { interrupted = true; }

extern "C" void exit_at_once(int signal) {
  if (const char* line = message) {
    if (is_terminal) write_text(kClearLine);
    write_text("attend: ");
    write_text(line);
    write_text("\n");
  }
  _exit(128 + signal);
}

extern "C" void report_bus_error(int signal, siginfo_t* info, void*) {
  const char* path = mapped_path_of(info->si_addr);
  if (info->si_code != BUS_ADRERR || path == nullptr) {
    ::signal(signal, SIG_DFL);  // another cause: the access faults again, with the default action
    return;
  }
  RawTerminal::restore();
  static std::atomic_flag is_reported;
  while (is_reported.test_and_set()) pause();  // another thread reports it and ends the process
  if (is_terminal) write_text("\n");
  write_text("attend: ");
  write_text(path);
  write_text(": the file was truncated while in use; restore it and start again\n");
  _exit(1);
}

/// Once: the second signal has its default effect.
enum class Handled { once, always };

void handle(std::initializer_list<int> signals, void (*handler)(int), int flags, Handled handled = Handled::once) {
  is_terminal = isatty(STDERR_FILENO) == 1;
  for (const int signal : signals) {
    struct sigaction before {
    }, action{};
    const bool is_ignored = sigaction(signal, nullptr, &before) == 0 && before.sa_handler == SIG_IGN;
    if (is_ignored) continue;
    action.sa_handler = handler;
    action.sa_flags = (handled == Handled::once ? static_cast<int>(SA_RESETHAND) : 0) | flags;
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, nullptr);
  }
}

}  // namespace

void stop_after_lines() {
  handle({SIGINT, SIGTERM}, stop_lines, 0);  // without SA_RESTART, a blocking read returns
}

const std::atomic<bool>& stop_after_saving() {
  static const bool is_handled = [] {
    handle({SIGINT, SIGTERM, SIGHUP, SIGUSR1}, stop_and_save, SA_RESTART);
    return true;
  }();
  static_cast<void>(is_handled);
  return stop_requested;
}

void acknowledge_signals() {
  is_terminal = isatty(STDERR_FILENO) == 1;
  message = kSavingFirst;
}

void exit_with_message(const char* text) {
  message = text;
  handle({SIGINT, SIGTERM}, exit_at_once, 0);
}

void interrupt_by_flag() { handle({SIGINT}, set_interrupted, SA_RESTART, Handled::always); }
bool is_interrupted() { return interrupted; }
bool take_interrupt() { return interrupted.exchange(false); }
bool wait_for_turn() {
  // Any thread may receive the signal, or it may come just before the wait, so the wait ends ten times a second to
  // look.
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  while (!interrupted) {
    if (poll(&input, 1, 100) > 0) return true;
  }
  return false;
}

bool is_stop_requested() { return stop_requested; }

void check_stop() {
  if (is_stop_requested()) throw StopRequested();
}

Progress stoppable(Progress progress) {
  stop_after_saving();  // before the first callback: what is written until then must not stay behind
  return [progress = std::move(progress)](const std::string& what, double share) {
    if (stop_after_saving()) throw StopRequested();
    progress(what, share);
  };
}

void exit_by_signal() {
  std::cout.flush();
  distributed::leave();
  std::_Exit(128 + (stop_signal > 0 ? stop_signal.load() : SIGTERM));  // another process may have had the signal
}

void survive_file_limits() {
  signal(SIGXFSZ, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
}

void explain_bus_errors() {
  is_terminal = isatty(STDERR_FILENO) == 1;
  struct sigaction action {};
  action.sa_sigaction = report_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace attend::cli
