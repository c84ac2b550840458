#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace attend::cli {

enum class Palette { none, indexed, truecolor };

/// An output stream and what it can display.
struct Terminal {
  std::ostream& out;
  Palette palette = Palette::none;
  int width = 100;  ///< columns
};

/// `when` is auto, always or never. auto: colours if standard output is a colour terminal and NO_COLOR is not set.
Terminal standard_terminal(const std::string& when);

std::string bold(const Terminal& terminal, const std::string& text);
std::string faint(const Terminal& terminal, const std::string& text);
/// Text on a background colour for `share`: 0 is dark violet, 1 is yellow.
std::string shaded(const Terminal& terminal, const std::string& text, double share);

struct Cell {
  std::string text;
  double share = -1;   ///< 0 … 1: shaded
  bool faint = false;  ///< printed in a faint style
};

struct Table {
  std::vector<std::string> columns, rows;  // the labels
  std::vector<std::vector<Cell>> cells;    // one list per row
};

/// Right-aligned by display width; columns that do not fit the width follow in further blocks.
void print_table(const Terminal& terminal, const Table& table, int indent = 3);

/// Words wrapped to the terminal's width.
void print_paragraph(const Terminal& terminal, const std::string& text, int indent = 3);

/// The text truncated to `columns`, ending in … if it was truncated.
std::string fitted(const std::string& text, int columns);

}  // namespace attend::cli
