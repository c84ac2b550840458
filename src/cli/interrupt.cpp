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
  static const bool once = [] {
    std::signal(SIGINT, request_stop);
    std::signal(SIGTERM, request_stop);
    return true;
  }();
  static_cast<void>(once);
  return stop_requested;
}

void exit_by_signal() {
  std::cout.flush();
  std::_Exit(128 + stop_signal);
}

}  // namespace attend::cli
