#pragma once

#include <atomic>

#include "attend/train/dataset.h"

// Signals as requests: save what there is, and end.
namespace attend::cli {

/// From the first call on Ctrl-C and SIGTERM only set the flag it returns; a second one has its usual effect.
const std::atomic<bool>& stop_on_signals();

struct StoppedTooSoon {};
/// Lets a signal end preparations by an exception, StoppedTooSoon, so that nothing of them stays. Until the first
/// report, while the standard input may be read, signals have their usual effect.
Progress stoppable(Progress progress);

/// Ends the process with 128 + the signal's number, as a shell reports it. Call it only after a signal.
[[noreturn]] void exit_by_signal();

/// A file that may not grow any more is an error to report, as a full disk is.
void survive_file_limits();

}  // namespace attend::cli
