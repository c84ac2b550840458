#pragma once

#include <atomic>

// Ctrl-C and SIGTERM as a request to save and end.
namespace attend::cli {

/// From the first call on the signals only set the flag it returns; a second one has its usual effect.
const std::atomic<bool>& stop_on_signals();
/// Ends the process with 128 + the signal's number, as a shell reports it. Call it only after a signal.
[[noreturn]] void exit_by_signal();

}  // namespace attend::cli
