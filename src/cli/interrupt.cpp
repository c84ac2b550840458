#include "cli/interrupt.h"

#include <csignal>
#include <cstdlib>
#include <iostream>

namespace attend::cli {
namespace {

std::atomic<bool> stop_requested{false};
std::atomic<int> stop_signal{0};

extern "C" void request_stop(int signal) {
  stop_signal = signal;
  stop_requested = true;
  std::signal(signal, SIG_DFL);
}

}  // namespace

const std::atomic<bool>& stop_on_signals() {
  static const bool is_set = [] {
    std::signal(SIGINT, request_stop);
    std::signal(SIGTERM, request_stop);
    return true;
  }();
  static_cast<void>(is_set);
  return stop_requested;
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

void survive_file_limits() { std::signal(SIGXFSZ, SIG_IGN); }

}  // namespace attend::cli
