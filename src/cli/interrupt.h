#pragma once

#include <atomic>

#include "attend/train/dataset.h"

// Signals as requests: save what there is, and end.
namespace attend::cli {

/// From the first call on Ctrl-C, SIGTERM and SIGHUP only set the flag it returns; a second one has its usual effect.
/// SIGHUP stays ignored where it was, as under nohup.
const std::atomic<bool>& stop_on_signals();
/// From now on the first of these signals prints this line on standard error at once. The text must live forever.
void acknowledge_signals(const char* line);
/// What commands that save say then.
constexpr const char* kStopping = "Stopping; saving comes first. Press Ctrl-C again to stop at once, without saving.";

struct StoppedTooSoon {};
/// Lets a signal end preparations by an exception, StoppedTooSoon, so that nothing of them stays. Until the first
/// report, while the standard input may be read, signals have their usual effect.
Progress stoppable(Progress progress);

/// Ends the process with 128 + the signal's number, as a shell reports it. Call it only after a signal.
[[noreturn]] void exit_by_signal();

/// A file that may not grow any more is an error to report, as a full disk is. Nor may a log that nobody reads any more
/// end a training.
void survive_file_limits();

/// A model's file that is cut short while it is in use ends the process with one line and code 1: its weights are gone,
/// and there is no right answer any more. Without this, the system's SIGBUS kills the process in silence.
void explain_bus_errors();

}  // namespace attend::cli
