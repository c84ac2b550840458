#pragma once

#include <atomic>

#include "attend/train/dataset.h"

// Signals as requests to stop: finished work is saved first. Every command handles Ctrl-C and SIGTERM; commands that
// train also handle SIGHUP. A signal that was ignored when the program started stays ignored, as under nohup. The
// second signal of a kind has its default effect.
namespace attend::cli {

/// From now on the first signal interrupts blocking reads and makes is_stop_requested() true. On a terminal it prints a
/// message.
void stop_after_lines();
/// Calls stop_after_lines() on construction: for members that must come before others.
struct StopAfterLines {
  StopAfterLines() { stop_after_lines(); }
};

/// From now on the first signal, SIGHUP and SIGUSR1 included, sets the returned flag; interrupted reads and writes
/// continue.
const std::atomic<bool>& stop_after_saving();
/// Makes that signal print kSavingFirst on standard error immediately.
void acknowledge_signals();
constexpr const char* kSavingFirst = "Stopping after saving. Press Ctrl-C again to stop immediately, without saving.";

/// From now on Ctrl-C and SIGTERM print "attend: `message`" and end the process; the string must be static.
void exit_with_message(const char* message);

/// From now on Ctrl-C sets a flag instead of ending the process, each time it is pressed.
void interrupt_by_flag();
/// Waits until standard input can be read. Returns false if Ctrl-C set the flag before that.
bool wait_for_turn();
/// Whether Ctrl-C was pressed since the flag was last taken.
bool is_interrupted();
/// is_interrupted(), and clears the flag.
bool take_interrupt();

bool is_stop_requested();
/// Thrown to end a computation from within one of its callbacks.
struct StopRequested {};
/// Throws StopRequested after a signal.
void check_stop();
/// Wraps `progress` so that it throws StopRequested after a signal. Signals are handled from the first report on;
/// before that, standard input may be read, and signals have their default effect.
Progress stoppable(Progress progress);

/// Exits with 128 + the signal's number, as shells do. Call it only after a signal, in all connected processes.
[[noreturn]] void exit_by_signal();

/// Makes a file-size limit and a closed pipe ordinary write errors, like a full disk, instead of fatal signals.
void survive_file_limits();

/// If a mapped model file is truncated, prints one line and exits with code 1. Without this, SIGBUS would kill the
/// process without a message.
void explain_bus_errors();

}  // namespace attend::cli
