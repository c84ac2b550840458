#pragma once

#include <cstdint>
#include <string>

namespace attend::cli {

/// Reads the user's turns from standard input. A turn is a line; a line that ends with a backslash continues on the
/// next one; a block between lines that begin and end with """ is one turn with line breaks.
class TurnReader {
 public:
  enum class Event { turn, end, interrupted };

  TurnReader();
  /// The next turn in UTF-8. On a terminal, prints a prompt on standard error first. `interrupted`: Ctrl-C was pressed,
  /// and the turn typed so far is dropped; see interrupt_by_flag(). Throws FormatError with the line number for invalid
  /// UTF-8 from a pipe or a file; on a terminal such a line is read again.
  Event next(std::string& turn);
  bool is_interactive() const { return is_interactive_; }

 private:
  Event line(std::string& text, const char* prompt);
  Event block(std::string& turn);

  bool is_interactive_;
  int64_t lines_ = 0;
  std::string pending_;  ///< read and not returned yet
  bool is_at_end_ = false;
};

}  // namespace attend::cli
