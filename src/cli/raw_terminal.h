#pragma once

#include "cli/line_painter.h"

namespace attend::cli {

/// The terminal on standard input and output, without its own line editing and echo, until the object is destroyed. Its
/// modes are restored also by exit() and when a signal stops or ends the process. At most one object exists.
class RawTerminal {
 public:
  /// Whether standard input and output are a terminal that can move its cursor.
  static bool is_supported();

  RawTerminal();
  ~RawTerminal();
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;

  void read_keys();     ///< each key comes as bytes, Ctrl-C and Ctrl-Z included
  void read_signals();  ///< Ctrl-C and Ctrl-Z are signals, as while an answer is printed; the initial state
  ScreenSize size() const;
  /// Stops the process as Ctrl-Z does. Returns when it continues.
  void suspend();

  /// Restores the modes, if an object exists; for signal handlers that end the process.
  static void restore();
};

}  // namespace attend::cli
