// The drawing of an edited line, on a small terminal of the test's own.
#include "cli/line_painter.h"

#include <gtest/gtest.h>

#include "attend/text/segment.h"

namespace attend::cli {
namespace {

/// Understands what LinePainter prints. A row is a list of columns; the second column of a wide character is "".
class Screen {
 public:
  explicit Screen(ScreenSize size) : size_(size), cells_(1) {}

  void print(const std::string& bytes) {
    for (const std::string& character : graphemes(bytes)) {
      if (!sequence_.empty() || character == "\x1b") {
        sequence_ += character;
        const bool is_complete = sequence_.size() > 2 && std::isalpha(static_cast<unsigned char>(sequence_.back()));
        if (is_complete) obey(std::exchange(sequence_, ""));
      } else if (character == "\r\n") {
        column_ = 0;
        down();
      } else if (character == "\r") {
        column_ = 0;
      } else {
        put(character);
      }
    }
  }
  /// A terminal that becomes narrower breaks rows.
  void narrow(int columns) {
    std::vector<std::vector<std::string>> cells;
    size_t row = 0;
    for (size_t i = 0; i < cells_.size(); ++i) {
      if (i == row_) row = cells.size() + static_cast<size_t>(column_ / columns);
      for (size_t at = 0; at == 0 || at < cells_[i].size(); at += static_cast<size_t>(columns)) {
        const size_t end = std::min(at + static_cast<size_t>(columns), cells_[i].size());
        cells.emplace_back(cells_[i].begin() + static_cast<ptrdiff_t>(at),
                           cells_[i].begin() + static_cast<ptrdiff_t>(end));
      }
    }
    cells_ = std::move(cells), row_ = row, column_ %= columns, size_.columns = columns;
  }

  std::string row(size_t index) const {
    std::string text;
    for (const std::string& cell : cells_[index]) text += cell;
    return text;
  }
  /// The rows of the screen and above, with the cursor as |.
  std::vector<std::string> rows() const {
    std::vector<std::string> result;
    for (size_t i = 0; i < cells_.size(); ++i) {
      std::string text = row(i);
      if (i == row_) {
        text.clear();
        for (size_t at = 0; at < std::max(cells_[i].size(), static_cast<size_t>(column_)); ++at) {
          if (at == static_cast<size_t>(column_)) text += '|';
          text += at < cells_[i].size() ? cells_[i][at] : " ";
        }
        if (static_cast<size_t>(column_) >= cells_[i].size()) text += '|';
      }
      result.push_back(text);
    }
    return result;
  }

 private:
  void put(const std::string& character) {
    const int width = display_width(character);
    if (width == 0) return void(cells_[row_].back() += character);
    if (column_ + width > size_.columns) {
      EXPECT_TRUE(wraps_) << "cut: " << character;
      column_ = 0;
      down();
    }
    auto& cells = cells_[row_];
    if (cells.size() < static_cast<size_t>(column_ + width)) cells.resize(static_cast<size_t>(column_ + width), " ");
    cells[static_cast<size_t>(column_)] = character;
    if (width == 2) cells[static_cast<size_t>(column_) + 1] = "";
    column_ += width;
  }
  void down() {
    if (++row_ == cells_.size()) cells_.emplace_back();
  }
  void obey(const std::string& sequence) {
    const int number = std::max(std::atoi(sequence.c_str() + 2), 1);
    if (sequence == "\x1b[?7l") {
      wraps_ = false;
    } else if (sequence == "\x1b[?7h") {
      wraps_ = true;
    } else if (sequence == "\x1b[K") {
      ASSERT_LT(column_, size_.columns) << "erases the last character";
      cells_[row_].resize(std::min(cells_[row_].size(), static_cast<size_t>(column_)));
    } else if (sequence == "\x1b[J") {
      obey("\x1b[K");
      cells_.resize(row_ + 1);
    } else if (sequence.back() == 'A') {
      const size_t top = cells_.size() - std::min(cells_.size(), static_cast<size_t>(size_.rows));
      ASSERT_GE(row_, top + static_cast<size_t>(number));
      row_ -= static_cast<size_t>(number);
    } else if (sequence.back() == 'C') {
      column_ += number;
      ASSERT_LT(column_, size_.columns);
    } else {
      ADD_FAILURE() << sequence.substr(1);
    }
  }

  ScreenSize size_;
  std::vector<std::vector<std::string>> cells_;
  size_t row_ = 0;
  int column_ = 0;
  bool wraps_ = true;
  std::string sequence_;
};

using Rows = std::vector<std::string>;

/// A screen, and a painter that draws on it.
struct Drawing {
  explicit Drawing(ScreenSize of) : size(of), screen(of) {}
  /// Draws a text with | for the cursor.
  Rows paint(std::string text) {
    const size_t cursor = text.find('|');
    text.erase(cursor, 1);
    screen.print(painter.paint(text, cursor, size));
    return screen.rows();
  }
  ScreenSize size;
  Screen screen;
  LinePainter painter;
};

TEST(LinePainter, DrawsRowsAndTheCursor) {
  Drawing drawing({10, 5});
  EXPECT_EQ(drawing.paint("|"), (Rows{"> |"}));
  EXPECT_EQ(drawing.paint("abc|"), (Rows{"> abc|"}));
  EXPECT_EQ(drawing.paint("a|bc"), (Rows{"> a|bc"}));
  EXPECT_EQ(drawing.paint("abcdefg|"), (Rows{"> abcdefg|"}));
  EXPECT_EQ(drawing.paint("abcdefgh|"), (Rows{"> abcdefgh", "|"})) << "a full row";
  EXPECT_EQ(drawing.paint("abcdefg|h"), (Rows{"> abcdefg|h", ""}));
  EXPECT_EQ(drawing.paint("abcdefgh|ij"), (Rows{"> abcdefgh", "|ij"}));
  EXPECT_EQ(drawing.paint("a|"), (Rows{"> a|", ""}));
  EXPECT_EQ(drawing.paint("x\n\nyz|"), (Rows{"> x", ". ", ". yz|"}));
  EXPECT_EQ(drawing.paint("x|\n\nyz"), (Rows{"> x|", ". ", ". yz"}));
}

TEST(LinePainter, KeepsWideCharactersWhole) {
  Drawing drawing({9, 5});
  EXPECT_EQ(drawing.paint("今天好|"), (Rows{"> 今天好|"}));
  EXPECT_EQ(drawing.paint("今天好吗|"), (Rows{"> 今天好", "吗|"})) << "one column remains free";
  EXPECT_EQ(drawing.paint("今天好|吗"), (Rows{"> 今天好", "|吗"}));
  EXPECT_EQ(drawing.paint("今|天好吗"), (Rows{"> 今|天好", "吗"}));
  EXPECT_EQ(drawing.paint("a今天好|吗"), (Rows{"> a今天好", "|吗"}));
  EXPECT_EQ(drawing.paint("ae\u0301👩‍👩‍👧|"), (Rows{"> ae\u0301👩‍👩‍👧|", ""}));
  EXPECT_EQ(drawing.paint("\t|\x1b\u0301"), (Rows{">       |␛", "◌\u0301"}));
}

TEST(LinePainter, DrawsTheSameFromAnyEarlierText) {
  const Rows texts{"|",       "a|b",         "今天|好吗，很高兴见到你", "abcdefgh|",      "x\n|y\nz",
                   "x\ny\n|", "|abcdefghij", "tab\t|here\tand there",   "天\n天天天天|天"};
  for (const std::string& first : texts) {
    for (const std::string& second : texts) {
      Drawing both({9, 6}), alone({9, 6});
      both.paint(first);
      Rows rows = both.paint(second);
      while (!rows.empty() && rows.back().empty()) rows.pop_back();
      EXPECT_EQ(rows, alone.paint(second)) << first;
    }
  }
}

TEST(LinePainter, DrawsTheRowsAroundTheCursorOfATallText) {
  Drawing drawing({20, 4});
  std::string text;
  for (int i = 0; i < 10; ++i) text += "line " + std::to_string(i) + (i < 9 ? "\n" : "");
  EXPECT_EQ(drawing.paint(text + "|"), (Rows{". line 6", ". line 7", ". line 8", ". line 9|"}));
  EXPECT_EQ(drawing.paint("|" + text), (Rows{"> |line 0", ". line 1", ". line 2", ". line 3"}));
  std::string middle = text;
  middle.insert(middle.find('5'), "|");
  EXPECT_EQ(drawing.paint(middle), (Rows{". line 3", ". line 4", ". line |5", ". line 6"}));
  drawing.screen.print(drawing.painter.finish(text));
  EXPECT_EQ(drawing.screen.rows().size(), 11u);
  EXPECT_EQ(drawing.screen.row(0), "> line 0");
  EXPECT_EQ(drawing.screen.row(9), ". line 9");
}

TEST(LinePainter, BeginsANewRowAtTheEnd) {
  Drawing drawing({9, 5});
  drawing.screen.print("before\r\n");
  drawing.paint("今天|好吗");
  drawing.screen.print(drawing.painter.finish("今天好吗"));
  EXPECT_EQ(drawing.screen.rows(), (Rows{"before", "> 今天好", "吗", "|"}));
  EXPECT_EQ(drawing.paint("|"), (Rows{"before", "> 今天好", "吗", "> |"}));
}

TEST(LinePainter, FollowsTheSizeOfTheScreen) {
  Drawing drawing({20, 8});
  drawing.screen.print("before\r\n");
  drawing.paint("one two three four five s|ix\nseven");
  drawing.size.columns = 12;
  drawing.screen.narrow(12);
  EXPECT_EQ(drawing.paint("one two three four five s|ix\nseven"),
            (Rows{"before", "> one two th", "ree four fiv", "e s|ix", ". seven"}));
  drawing.size.columns = 40;
  EXPECT_EQ(drawing.painter.paint("one|", 3, drawing.size).substr(6, 4), "\x1b[2A");
}

}  // namespace
}  // namespace attend::cli
