#pragma once

#include <atomic>

#include "attend/train/dataset.h"

// Signals as requests to stop: finished work is saved first. Ctrl-C and SIGTERM count for every command, SIGHUP for
// those that train. A signal that was ignored when the program started stays ignored, as under nohup. The second signal
// of a kind has its usual effect.
namespace attend::cli {

/// From now on the first signal ends waiting reads and makes is_stop_requested() true. On a terminal it is
/// acknowledged.
void stop_after_lines();
/// Calls stop_after_lines() on construction: for members that must come before others.
struct StopAfterLines {
  StopAfterLines() { stop_after_lines(); }
};

/// From now on the first signal, SIGHUP included, sets the flag that is returned; interrupted reads and writes
/// continue.
const std::atomic<bool>& stop_after_saving();
/// Makes that signal print kSavingFirst on standard error at once.
void acknowledge_signals();
constexpr const char* kSavingFirst =
    "Stopping; saving comes first. Press Ctrl-C again to stop at once, without saving.";

/// From now on Ctrl-C and SIGTERM end the process at once after printing "attend: `message`", which must be static.
void exit_with_message(const char* message);

bool is_stop_requested();
/// Thrown to end a computation from within one of its callbacks.
struct StopRequested {};
/// Throws StopRequested after a signal.
void check_stop();
/// Wraps `progress` so that it throws StopRequested after a signal. Signals are handled from the first report on:
/// before that standard input may be read, and they have their usual effect.
Progress stoppable(Progress progress);

/// Ends the process with 128 + the signal's number, as a shell reports it. Call it only after a signal.
[[noreturn]] void exit_by_signal();

/// Turns a file-size limit and a closed pipe into errors to report, as a full disk is, instead of fatal signals.
void survive_file_limits();

/// Reports a model file that is cut short while it is mapped in one line, and exits with code 1. Without this, SIGBUS
/// would kill the process without a message.
void explain_bus_errors();

}  // namespace attend::cli
