#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace attend::cli {

enum class Key {
  text,   ///< characters to insert
  paste,  ///< a pasted text to insert
  enter,
  new_line,  ///< Alt-Enter
  backspace,
  erase,  ///< Delete
  left,
  right,
  word_left,
  word_right,
  home,
  end,
  up,
  down,
  older,  ///< Ctrl-P
  newer,  ///< Ctrl-N
  erase_to_end,
  erase_to_begin,
  erase_word_left,
  erase_word_right,
  insert_erased,  ///< Ctrl-Y
  interrupt,      ///< Ctrl-C
  end_of_input,   ///< Ctrl-D
  clear_screen,
  suspend,  ///< Ctrl-Z
  unknown,
};

struct KeyPress {
  Key key = Key::unknown;
  std::string text{};  ///< of Key::text and Key::paste, in UTF-8
};

/// Divides the bytes of a terminal without line discipline into keys. Line breaks in a pasted text become \n, and one
/// at its end is dropped. Invalid UTF-8 becomes U+FFFD.
class KeyDecoder {
 public:
  void feed(std::string_view bytes) { bytes_ += bytes; }
  /// The next key, or nothing if its bytes are not complete.
  std::optional<KeyPress> next();
  /// Whether the bytes so far are the Escape key or the beginning of another key.
  bool is_ambiguous() const { return !bytes_.empty() && bytes_[0] == '\x1b' && !is_pasting_; }
  /// No byte follows soon: ambiguous bytes are the Escape key, which does nothing.
  void give_up_escape();
  size_t size() const { return bytes_.size(); }  ///< bytes that are not part of a returned key

 private:
  std::optional<KeyPress> escape();
  std::optional<KeyPress> control_sequence();
  std::optional<KeyPress> pasted();
  std::optional<KeyPress> characters();
  std::string taken(size_t count);

  std::string bytes_;
  bool is_pasting_ = false;
  size_t searched_ = 0;  ///< bytes of a pasted text that do not contain its end
};

}  // namespace attend::cli
