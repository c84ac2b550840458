#include "cli/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "io/mapped_file.h"

namespace attend::cli {
namespace {

std::atomic<bool> stop_requested{false};
std::atomic<int> stop_signal{0};
std::atomic<const char*> acknowledgement{nullptr};
std::atomic<bool> is_live{false};  // standard error is a terminal, on which a line may be half written

void write_text(const char* text) {
  // What cannot be written cannot be told either.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, std::strlen(text));
}

extern "C" void request_stop(int signal) {
  const int before = errno;
  stop_signal = signal;
  stop_requested = true;
  ::signal(signal, SIG_DFL);
  if (const char* line = acknowledgement.exchange(nullptr)) {
    if (is_live) write_text("\n");
    write_text(line);
    write_text("\n");
  }
  errno = before;
}

extern "C" void report_bus_error(int signal, siginfo_t* info, void*) {
  const char* path = mapped_path_of(info->si_addr);
  if (info->si_code != BUS_ADRERR || path == nullptr) {
    ::signal(signal, SIG_DFL);  // something else: it happens again, and has its usual effect
    return;
  }
  if (is_live) write_text("\n");
  write_text("attend: ");
  write_text(path);
  write_text(": was cut short while it was in use; restore the file and start again\n");
  _exit(1);
}

void stop_on(int signal) {
  struct sigaction action {};
  action.sa_handler = request_stop;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

}  // namespace

const std::atomic<bool>& stop_on_signals() {
  static const bool is_set = [] {
    stop_on(SIGINT);
    stop_on(SIGTERM);
    struct sigaction hang_up {};
    if (sigaction(SIGHUP, nullptr, &hang_up) == 0 && hang_up.sa_handler != SIG_IGN) stop_on(SIGHUP);
    return true;
  }();
  static_cast<void>(is_set);
  return stop_requested;
}

void acknowledge_signals(const char* line) {
  is_live = isatty(STDERR_FILENO) == 1;
  acknowledgement = line;
}

Progress stoppable(Progress progress) {
  return [progress = std::move(progress)](const std::string& what, double share) {
    if (stop_on_signals()) throw StoppedTooSoon();
    progress(what, share);
  };
}

void exit_by_signal() {
  std::cout.flush();
  std::_Exit(128 + stop_signal);
}

void survive_file_limits() {
  signal(SIGXFSZ, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
}

void explain_bus_errors() {
  is_live = isatty(STDERR_FILENO) == 1;
  struct sigaction action {};
  action.sa_sigaction = report_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace attend::cli
