#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace attend::cli {

struct ScreenSize {
  int columns = 80, rows = 24;
  bool operator==(const ScreenSize&) const = default;
};

/// Draws the text that a user edits. Each function returns bytes to write to a terminal that supports ECMA-48. The
/// first line of the text follows the prompt "> ", later lines follow ". ". A character that does not fit into a row
/// starts the next row. If the text has more rows than the screen, only the rows around the cursor are drawn.
class LinePainter {
 public:
  /// Replaces the text drawn before, if any. `cursor` is in bytes.
  std::string paint(std::string_view text, size_t cursor, ScreenSize screen);
  /// Replaces the text drawn before by the whole text and begins a new row. The next text is drawn there.
  std::string finish(std::string_view text);
  /// Clears the screen. The next text is drawn at its top.
  std::string clear_screen();
  /// The next text is drawn where the cursor is then.
  void forget() { picture_ = {}; }

 private:
  struct Picture {
    std::vector<std::string> rows{};
    std::vector<int> widths{};
    int cursor_row = 0, cursor_column = 0;
  };
  struct Shown {
    std::string text;
    int width;
  };

  Picture arranged(std::string_view text, size_t cursor, ScreenSize screen);
  void add_line(Picture& picture, std::string_view line, size_t cursor);
  Shown shown(const std::string& character, int column);
  std::string to_top() const;

  Picture picture_;
  ScreenSize screen_;
  std::unordered_map<std::string, Shown> known_;  ///< how characters beyond ASCII are shown
};

}  // namespace attend::cli
