#include "cli/line_painter.h"

#include <algorithm>
#include <utility>

#include "attend/text/segment.h"

namespace attend::cli {
namespace {

constexpr std::string_view kFirstPrompt = "> ", kPrompt = ". ";
constexpr int kFewestColumns = 8, kTab = 8;
constexpr size_t kMostKnown = 10000;
// A terminal that finds a character wider than expected cuts the row and does not begin another one.
constexpr std::string_view kCutRows = "\x1b[?7l", kWrapRows = "\x1b[?7h";
constexpr std::string_view kClearRow = "\x1b[K", kClearBelow = "\x1b[J";

std::string moved(int count, char direction) {
  return count > 0 ? "\x1b[" + std::to_string(count) + direction : std::string();
}

}  // namespace

LinePainter::Shown LinePainter::shown(const std::string& character, int column) {
  if (character == "\t") {
    const int width = std::min(kTab - column % kTab, std::max(screen_.columns - column, 1));
    return {std::string(static_cast<size_t>(width), ' '), width};
  }
  const bool is_printable = character.size() == 1 && character[0] >= ' ' && character[0] < '\x7f';
  if (is_printable) return {character, 1};
  if (known_.size() >= kMostKnown) known_.clear();
  const auto [entry, is_new] = known_.try_emplace(character);
  if (is_new) {
    entry->second.text = visible(character);
    entry->second.width = display_width(entry->second.text);
  }
  return entry->second;
}

/// Appends the rows of one line. `cursor` is its place in the line, or beyond the line's end.
void LinePainter::add_line(Picture& picture, std::string_view line, size_t cursor) {
  const auto begin_row = [&] {
    picture.rows.emplace_back();
    picture.widths.push_back(0);
  };
  const auto mark_cursor = [&] {
    picture.cursor_row = static_cast<int>(picture.rows.size()) - 1;
    picture.cursor_column = picture.widths.back();
  };
  size_t at = 0;
  for (const std::string& character : graphemes(line)) {
    const Shown next = shown(character, picture.widths.back());
    if (picture.widths.back() + next.width > screen_.columns) begin_row();
    if (at == cursor) mark_cursor();
    picture.rows.back() += next.text;
    picture.widths.back() += next.width;
    at += character.size();
  }
  if (at != cursor) return;
  if (picture.widths.back() == screen_.columns) begin_row();
  mark_cursor();
}

LinePainter::Picture LinePainter::arranged(std::string_view text, size_t cursor, ScreenSize screen) {
  // Only lines near the cursor can be on the screen.
  size_t begin = cursor, end = text.find('\n', cursor);
  for (int i = 0; i <= screen.rows && begin != std::string_view::npos; ++i) {
    begin = begin == 0 ? std::string_view::npos : text.rfind('\n', begin - 1);
  }
  begin = begin == std::string_view::npos ? 0 : begin + 1;
  for (int i = 0; i < screen.rows && end != std::string_view::npos; ++i) end = text.find('\n', end + 1);
  end = std::min(end, text.size());
  Picture picture;
  for (size_t at = begin; at <= end;) {
    const size_t line_end = std::min(text.find('\n', at), end);
    picture.rows.emplace_back(at == 0 ? kFirstPrompt : kPrompt);
    picture.widths.push_back(display_width(picture.rows.back()));
    add_line(picture, text.substr(at, line_end - at), cursor >= at ? cursor - at : std::string_view::npos);
    at = line_end + 1;
  }
  const int count = static_cast<int>(picture.rows.size());
  const int top = std::clamp(picture.cursor_row - screen.rows / 2, 0, std::max(count - screen.rows, 0));
  const auto cut = [&](auto& list) {
    list.erase(list.begin() + std::min(top + screen.rows, count), list.end());
    list.erase(list.begin(), list.begin() + top);
  };
  cut(picture.rows);
  cut(picture.widths);
  picture.cursor_row -= top;
  return picture;
}

/// Moves to the beginning of the text that was drawn before. If the screen became narrower since, the terminal has
/// broken the rows that no longer fit.
std::string LinePainter::to_top() const {
  if (picture_.rows.empty()) return {};
  int up = picture_.cursor_column / screen_.columns;
  for (int row = 0; row < picture_.cursor_row; ++row) {
    up += std::max((picture_.widths[static_cast<size_t>(row)] - 1) / screen_.columns, 0) + 1;
  }
  return "\r" + moved(std::min(up, screen_.rows - 1), 'A');
}

std::string LinePainter::paint(std::string_view text, size_t cursor, ScreenSize screen) {
  const ScreenSize before =
      std::exchange(screen_, {std::max(screen.columns, kFewestColumns), std::max(screen.rows, 1)});
  const bool is_resized = before != screen_;
  const Picture next = arranged(text, cursor, screen_);
  std::string out(kCutRows);
  out += to_top();
  if (is_resized && !picture_.rows.empty()) out += kClearBelow;
  for (size_t row = 0; row < next.rows.size(); ++row) {
    if (row > 0) out += "\r\n";
    const bool is_drawn = !is_resized && row < picture_.rows.size() && picture_.rows[row] == next.rows[row];
    if (is_drawn) continue;
    // Clear the row before writing it: after a full row, the cursor stays on the last character, which would be erased.
    if (row > 0 || !picture_.rows.empty()) out += kClearRow;
    out += next.rows[row];
  }
  const int last = static_cast<int>(next.rows.size()) - 1;
  if (picture_.rows.size() > next.rows.size()) out += "\r\n" + std::string(kClearBelow) + moved(1, 'A');
  out += "\r" + moved(last - next.cursor_row, 'A') + moved(next.cursor_column, 'C');
  out += kWrapRows;
  picture_ = next;
  return out;
}

std::string LinePainter::finish(std::string_view text) {
  std::string out = to_top();
  if (!picture_.rows.empty()) out += kClearBelow;
  // The terminal breaks the rows itself here, so that it can join them if it becomes wider, and when they are copied.
  int column = 0;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    out += begin == 0 ? kFirstPrompt : kPrompt;
    column = display_width(kPrompt);
    for (const std::string& character : graphemes(text.substr(begin, end - begin))) {
      const Shown next = shown(character, column % screen_.columns);
      out += next.text;
      column += next.width;
    }
    out += "\r\n";
    begin = end + 1;
  }
  forget();
  return out;
}

std::string LinePainter::clear_screen() {
  forget();
  return "\x1b[H\x1b[2J";
}

}  // namespace attend::cli
