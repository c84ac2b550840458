#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string_view>

#include "attend/text/segment.h"
#include "text/unicode.h"

namespace attend::cli {
namespace {

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// The width of the terminal; for a pipe, COLUMNS or 100.
int terminal_width() {
  winsize size{};
  if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    return std::max<int>(size.ws_col, 40);
  }
  const int columns = std::atoi(std::string(environment("COLUMNS")).c_str());
  return columns > 0 ? std::clamp(columns, 40, 1000) : 100;
}

bool wants_colour(const std::string& when) {
  if (when != "auto") return when == "always";
  const std::string_view term = environment("TERM");
  return isatty(STDOUT_FILENO) && environment("NO_COLOR").empty() && !term.empty() && term != "dumb";
}

struct Colour {
  int red, green, blue;
};

/// Viridis at five points: perceptually uniform, and readable for the colour-blind, in print and on any background.
Colour viridis(double share) {
  constexpr std::array<Colour, 5> kPoints{{{68, 1, 84}, {59, 82, 139}, {33, 145, 140}, {94, 201, 98}, {253, 231, 37}}};
  const double place = std::clamp(share, 0.0, 1.0) * (kPoints.size() - 1);
  const size_t left = std::min(static_cast<size_t>(place), kPoints.size() - 2);
  const double part = place - static_cast<double>(left);
  const Colour a = kPoints[left], b = kPoints[left + 1];
  const auto mix = [part](int from, int to) { return static_cast<int>(std::lround(from + part * (to - from))); };
  return {mix(a.red, b.red), mix(a.green, b.green), mix(a.blue, b.blue)};
}

/// The nearest of the 6×6×6 colours of a 256-colour terminal, whose levels are 0, 95, 135, …, 255.
int cube_index(Colour colour) {
  const auto level = [](int value) { return value < 48 ? 0 : value < 115 ? 1 : (value - 35) / 40; };
  return 16 + 36 * level(colour.red) + 6 * level(colour.green) + level(colour.blue);
}

std::string styled(const Terminal& terminal, const std::string& text, const char* code) {
  return terminal.palette == Palette::none ? text : "\x1b[" + std::string(code) + "m" + text + "\x1b[0m";
}

std::string padded(const std::string& text, int width) {
  return std::string(static_cast<size_t>(std::max(0, width - display_width(text))), ' ') + text;
}

/// A part of a paragraph that stays on one line.
struct Unbroken {
  std::string text;
  bool follows_blank = false;
};

/// Splits a text where a line may end: at blanks and, in Chinese text, between characters, but not before a mark that
/// closes.
std::vector<Unbroken> breakable(const std::string& text) {
  constexpr std::u32string_view kClosing = U"，。；：、？！）」”’%…";
  std::vector<Unbroken> parts;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    bool is_first = true, was_wide = false;
    text::for_each_code_point(word, [&](char32_t code, std::string_view bytes) {
      const bool is_wide = display_width(std::string(bytes)) == 2, closes = kClosing.find(code) != std::u32string::npos;
      const bool opens_part = is_first || ((is_wide || was_wide) && !closes);
      if (opens_part) parts.push_back({{}, is_first && !parts.empty()});
      parts.back().text += bytes;
      is_first = false, was_wide = is_wide;
    });
  }
  return parts;
}

std::string label(const std::string& text, int width) {
  return text + std::string(static_cast<size_t>(std::max(0, width - display_width(text))), ' ');
}

int widest(const std::vector<std::string>& texts) {
  int width = 0;
  for (const std::string& text : texts) width = std::max(width, display_width(text));
  return width;
}

int column_width(const Table& table, size_t column) {
  int width = display_width(table.columns[column]);
  for (const auto& row : table.cells) width = std::max(width, display_width(row[column].text));
  return width + 2;  // one space on each side, with the same background
}

std::string rendered(const Terminal& terminal, const Cell& cell, int width) {
  const std::string text = padded(cell.text, width - 1) + " ";
  if (cell.share >= 0) return shaded(terminal, text, cell.share);
  return cell.faint ? faint(terminal, text) : text;
}

/// A line without the spaces at its end.
std::string_view without_end(std::string_view line) { return line.substr(0, line.find_last_not_of(' ') + 1); }

}  // namespace

Terminal standard_terminal(const std::string& when) {
  const std::string_view depth = environment("COLORTERM");
  const bool deep = depth == "truecolor" || depth == "24bit";
  const Palette palette = !wants_colour(when) ? Palette::none : deep ? Palette::truecolor : Palette::indexed;
  return {std::cout, palette, terminal_width()};
}

std::string bold(const Terminal& terminal, const std::string& text) { return styled(terminal, text, "1"); }
std::string faint(const Terminal& terminal, const std::string& text) { return styled(terminal, text, "2"); }

std::string shaded(const Terminal& terminal, const std::string& text, double share) {
  const Colour colour = viridis(share);
  const bool bright = share > 0.6;
  std::ostringstream code;
  if (terminal.palette == Palette::truecolor) {
    code << (bright ? "38;2;0;0;0" : "38;2;255;255;255") << ";48;2;" << colour.red << ';' << colour.green << ';'
         << colour.blue;
  } else {
    code << (bright ? "38;5;16" : "38;5;231") << ";48;5;" << cube_index(colour);
  }
  return styled(terminal, text, code.str().c_str());
}

void print_table(const Terminal& terminal, const Table& table, int indent) {
  const std::string margin(static_cast<size_t>(indent), ' ');
  const int label_width = widest(table.rows);
  size_t begin = 0;
  do {
    int used = indent + label_width + 1;
    size_t end = begin;
    while (end < table.columns.size() && (end == begin || used + column_width(table, end) <= terminal.width)) {
      used += column_width(table, end++);
    }
    if (begin > 0) terminal.out << '\n';
    std::string line = margin + std::string(static_cast<size_t>(label_width) + 1, ' ');
    for (size_t c = begin; c < end; ++c) {
      line += faint(terminal, padded(table.columns[c], column_width(table, c) - 1)) + ' ';
    }
    terminal.out << without_end(line) << '\n';
    for (size_t r = 0; r < table.rows.size(); ++r) {
      line = margin + label(table.rows[r], label_width) + ' ';
      for (size_t c = begin; c < end; ++c) line += rendered(terminal, table.cells[r][c], column_width(table, c));
      terminal.out << without_end(line) << '\n';
    }
    begin = end;
  } while (begin < table.columns.size());
}

void print_paragraph(const Terminal& terminal, const std::string& text, int indent) {
  const std::string margin(static_cast<size_t>(indent), ' ');
  const int room = std::min(terminal.width, 100);
  int used = 0;
  for (const auto& [part, follows_blank] : breakable(text)) {
    const int width = display_width(part), gap = follows_blank ? 1 : 0;
    const bool fits = used > 0 && used + gap + width <= room;
    terminal.out << (fits ? std::string(static_cast<size_t>(gap), ' ') : used > 0 ? "\n" + margin : margin) << part;
    used = (fits ? used + gap : indent) + width;
  }
  terminal.out << '\n';
}

std::string fitted(const std::string& text, int columns) {
  if (display_width(text) <= columns) return text;
  std::string result;
  int used = 0;
  for (const std::string& character : graphemes(text)) {
    used += display_width(character);
    if (used > columns - 1) break;
    result += character;
  }
  return result + "…";
}

}  // namespace attend::cli
