#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cli/line_editor.h"

namespace attend::cli {

class RawTerminal;
class LinePainter;

/// Reads the user's turns from standard input. A turn is a line; a line that ends with a backslash continues on the
/// next one; a block between lines that begin and end with """ is one turn with line breaks.
///
/// If standard input and output are a terminal, the line can be edited, earlier turns come back, and a pasted text is
/// part of one turn; see LineEditor.
class TurnReader {
 public:
  enum class Event {
    turn,
    end,
    interrupted,  ///< Ctrl-C, and the turn typed so far is dropped; see interrupt_by_flag()
    emptied,      ///< Ctrl-C in a line that was being edited, and the line is dropped
  };

  TurnReader();
  ~TurnReader();
  /// The next turn in UTF-8. Prints a prompt first if a person types: on standard output if the line can be edited, or
  /// else on standard error. Throws FormatError with the line number for invalid UTF-8 from a pipe or a file; a person
  /// is asked to type such a line again.
  Event next(Turn& turn);
  /// Whether a person types.
  bool is_interactive() const { return is_interactive_; }
  /// Whether the line can be edited and earlier turns come back.
  bool can_edit() const { return terminal_ != nullptr; }

 private:
  Event edited(Turn& turn);
  void read_keys();
  Event turn(std::string& text);
  Event line(std::string& text, const char* prompt);
  Event block(std::string& turn);

  bool is_interactive_;
  int64_t lines_ = 0;
  std::string pending_;  ///< read and not returned yet
  bool is_at_end_ = false;

  std::unique_ptr<RawTerminal> terminal_;  ///< null unless the line can be edited, like painter_
  std::unique_ptr<LinePainter> painter_;
  KeyDecoder keys_;
  LineEditor editor_;
};

}  // namespace attend::cli
