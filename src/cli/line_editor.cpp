#include "cli/line_editor.h"

#include <algorithm>

#include "attend/text/segment.h"
#include "attend/text/utf8.h"
#include "text/unicode.h"

namespace attend::cli {
namespace {

constexpr std::string_view kFence = "\"\"\"";

bool is_block(const Turn& turn) { return turn.text.starts_with(kFence) && !turn.is_pasted; }
bool is_closed(const Turn& block) { return block.text.size() >= 2 * kFence.size() && block.text.ends_with(kFence); }

/// The text between the quotes. Line breaks next to the quotes are not part of it.
std::string block_text(std::string_view text) {
  text.remove_prefix(kFence.size());
  text.remove_suffix(kFence.size());
  if (text.starts_with('\n')) text.remove_prefix(1);
  if (text.ends_with('\n')) text.remove_suffix(1);
  return std::string(text);
}

bool is_word_part(std::string_view grapheme) {
  size_t at = 0;
  return text::is_word(text::next_code_point(grapheme, at));
}

}  // namespace

size_t LineEditor::line_begin(size_t at) const {
  const size_t found = at == 0 ? std::string::npos : now_.text.rfind('\n', at - 1);
  return found == std::string::npos ? 0 : found + 1;
}

size_t LineEditor::line_end(size_t at) const { return std::min(now_.text.find('\n', at), now_.text.size()); }

size_t LineEditor::before(size_t at) const {
  const size_t begin = line_begin(at);
  if (at == begin) return at - std::min<size_t>(at, 1);
  return at - graphemes(std::string_view(now_.text).substr(begin, at - begin)).back().size();
}

size_t LineEditor::after(size_t at) const {
  const size_t end = line_end(at);
  if (at == end) return std::min(at + 1, now_.text.size());
  return at + graphemes(std::string_view(now_.text).substr(at, end - at)).front().size();
}

size_t LineEditor::word_begin(size_t at) const {
  const auto characters = graphemes(std::string_view(now_.text).substr(0, at));
  bool is_inside = false;
  for (auto character = characters.rbegin(); character != characters.rend(); ++character) {
    const bool is_part = is_word_part(*character);
    if (is_inside && !is_part) break;
    is_inside = is_part;
    at -= character->size();
  }
  return at;
}

size_t LineEditor::word_end(size_t at) const {
  bool is_inside = false;
  for (const std::string& character : graphemes(std::string_view(now_.text).substr(at))) {
    const bool is_part = is_word_part(character);
    if (is_inside && !is_part) break;
    is_inside = is_part;
    at += character.size();
  }
  return at;
}

void LineEditor::insert(std::string_view text) {
  now_.text.insert(cursor_, text);
  cursor_ += text.size();
  // The inserted text and the next characters may become one character: a letter before an accent, a joiner between
  // emoji.
  size_t at = line_begin(cursor_);
  const size_t end = line_end(cursor_);
  if (cursor_ == end) return;
  for (const std::string& character : graphemes(std::string_view(now_.text).substr(at, end - at))) {
    if (at >= cursor_) break;
    at += character.size();
  }
  cursor_ = at;
}

void LineEditor::paste(std::string_view text) {
  if (cursor_ == 0 && text.find('\n') != std::string_view::npos) now_.is_pasted = true;
  insert(text);
}

void LineEditor::erase(size_t begin, size_t end) {
  now_.text.erase(begin, end - begin);
  cursor_ = begin;
  if (now_.text.empty()) now_.is_pasted = false;
}

void LineEditor::erase_and_keep(size_t begin, size_t end) {
  if (begin == end) return;
  erased_ = now_.text.substr(begin, end - begin);
  erase(begin, end);
}

/// Up or down by a line of the text; from the first or last line, to another turn.
void LineEditor::move_line(int step) {
  const size_t begin = line_begin(cursor_), end = line_end(cursor_);
  if (step < 0 && begin == 0) {
    if (place_ > 0) recall(place_ - 1);
    return;
  }
  if (step > 0 && end == now_.text.size()) {
    if (place_ < history_.size()) recall(place_ + 1);
    return;
  }
  const int column = display_width(std::string_view(now_.text).substr(begin, cursor_ - begin));
  const size_t from = step < 0 ? line_begin(begin - 1) : end + 1, to = line_end(from);
  cursor_ = from;
  int used = 0;
  for (const std::string& character : graphemes(std::string_view(now_.text).substr(from, to - from))) {
    used += display_width(character);
    if (used > column) break;
    cursor_ += character.size();
  }
}

void LineEditor::recall(size_t index) {
  edits_[place_] = std::move(now_);
  place_ = index;
  const auto edited = edits_.find(index);
  now_ = edited != edits_.end() ? edited->second : history_[index];
  cursor_ = now_.text.size();
}

void LineEditor::clear() {
  now_ = {};
  cursor_ = 0;
  edits_.clear();
  place_ = history_.size();
}

Turn LineEditor::take() {
  Turn turn = std::move(now_);
  if (is_block(turn) && is_closed(turn)) turn.text = block_text(turn.text);
  const bool is_new = history_.empty() || history_.back() != turn;
  if (is_new && !is_blank(turn.text)) history_.push_back(turn);
  clear();
  return turn;
}

LineEditor::Outcome LineEditor::enter() {
  if (is_block(now_)) {
    if (is_closed(now_)) return Outcome::entered;
    insert("\n");
    return Outcome::none;
  }
  if (now_.text.ends_with('\\') && !now_.is_pasted) {
    now_.text.back() = '\n';
    cursor_ = now_.text.size();
    return Outcome::none;
  }
  return Outcome::entered;
}

LineEditor::Outcome LineEditor::interrupt() {
  if (now_.text.empty()) return Outcome::interrupted;
  clear();
  return Outcome::emptied;
}

LineEditor::Outcome LineEditor::press(const KeyPress& press) {
  switch (press.key) {
    case Key::text:
      insert(press.text);
      return Outcome::none;
    case Key::paste:
      paste(press.text);
      return Outcome::none;
    case Key::enter:
      return enter();
    case Key::interrupt:
      return interrupt();
    case Key::end_of_input:
      if (now_.text.empty()) return Outcome::ended;
      erase(cursor_, after(cursor_));
      return Outcome::none;
    case Key::clear_screen:
      return Outcome::cleared;
    case Key::suspend:
      return Outcome::suspended;
    default:
      edit(press.key);
      return Outcome::none;
  }
}

/// Keys that change only the text or the cursor.
void LineEditor::edit(Key key) {
  switch (key) {
    case Key::new_line:
      return insert("\n");
    case Key::backspace:
      return erase(before(cursor_), cursor_);
    case Key::erase:
      return erase(cursor_, after(cursor_));
    case Key::left:
      cursor_ = before(cursor_);
      return;
    case Key::right:
      cursor_ = after(cursor_);
      return;
    case Key::word_left:
      cursor_ = word_begin(cursor_);
      return;
    case Key::word_right:
      cursor_ = word_end(cursor_);
      return;
    case Key::home:
      cursor_ = line_begin(cursor_);
      return;
    case Key::end:
      cursor_ = line_end(cursor_);
      return;
    case Key::up:
      return move_line(-1);
    case Key::down:
      return move_line(1);
    case Key::older:
      if (place_ > 0) recall(place_ - 1);
      return;
    case Key::newer:
      if (place_ < history_.size()) recall(place_ + 1);
      return;
    case Key::erase_to_end:
      return erase_and_keep(cursor_, line_end(cursor_));
    case Key::erase_to_begin:
      return erase_and_keep(line_begin(cursor_), cursor_);
    case Key::erase_word_left:
      return erase_and_keep(word_begin(cursor_), cursor_);
    case Key::erase_word_right:
      return erase_and_keep(cursor_, word_end(cursor_));
    case Key::insert_erased:
      return insert(erased_);
    default:
      return;
  }
}

}  // namespace attend::cli
