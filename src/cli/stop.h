#pragma once

// Ctrl-C and SIGTERM in the commands that turn many texts into results: the finished ones are kept.
namespace attend::cli {

/// From this call on the first Ctrl-C or SIGTERM only asks the command to stop: reads that wait for input end, and
/// is_stop_requested() becomes true. A second one has its usual effect. A signal that is ignored stays ignored.
void stop_when_signalled();
bool is_stop_requested();
/// Calls it when it is made: for members that come before others.
struct StopWhenSignalled {
  StopWhenSignalled() { stop_when_signalled(); }
};
/// From this call on Ctrl-C and SIGTERM end the process at once, with a line on standard error: `attend: ` and the
/// message, which must outlive the process's work.
void say_when_signalled(const char* message);

/// Ends a computation from within one of its callbacks.
struct StopRequested {};
/// Throws it after a signal.
void check_stop();

/// Ends the process with 128 + the signal's number, as a shell reports it. Call it only after a signal.
[[noreturn]] void exit_stopped();

}  // namespace attend::cli
