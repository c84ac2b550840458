#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli/keys.h"

namespace attend::cli {

/// A message or command that the user has entered.
struct Turn {
  std::string text{};
  bool is_pasted = false;  ///< begins with a pasted text of several lines, which is a message and never a command
  bool operator==(const Turn&) const = default;
};

/// The text that a user edits, its cursor, and the turns entered before. Keys in, text and cursor out: it knows no
/// terminal. The cursor moves by whole characters (graphemes).
///
/// Enter ends the turn, except in a text that ends with a backslash, which becomes a line break, and in a block that
/// begins with """ and does not end with """ yet. A pasted text is inserted as it is.
class LineEditor {
 public:
  enum class Outcome {
    none,
    entered,      ///< take() returns the turn
    emptied,      ///< Ctrl-C: the text was dropped
    interrupted,  ///< Ctrl-C without a text
    ended,        ///< Ctrl-D without a text
    suspended,    ///< Ctrl-Z
    cleared,      ///< Ctrl-L: the screen is to be cleared
  };
  Outcome press(const KeyPress& press);

  const std::string& text() const { return now_.text; }
  size_t cursor() const { return cursor_; }  ///< in bytes
  /// The entered turn, without the quotes of a block. The next turn begins empty.
  Turn take();

 private:
  Outcome enter();
  Outcome interrupt();
  void insert(std::string_view text);
  void paste(std::string_view text);
  void erase(size_t begin, size_t end);
  void erase_and_keep(size_t begin, size_t end);
  void move_line(int step);
  void recall(size_t index);
  void clear();
  void edit(Key key);

  size_t line_begin(size_t at) const;
  size_t line_end(size_t at) const;
  size_t before(size_t at) const;
  size_t after(size_t at) const;
  size_t word_begin(size_t at) const;
  size_t word_end(size_t at) const;

  Turn now_;
  size_t cursor_ = 0;
  std::string erased_;
  std::vector<Turn> history_;
  size_t place_ = 0;              ///< in history_; history_.size() is the new turn
  std::map<size_t, Turn> edits_;  ///< texts that were left for another place, by place
};

}  // namespace attend::cli
