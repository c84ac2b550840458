#include "cli/keys.h"

#include <algorithm>

#include "attend/text/utf8.h"
#include "io/printable.h"
#include "text/unicode.h"

namespace attend::cli {
namespace {

constexpr std::string_view kPasteEnd = "\x1b[201~";

bool is_control(char byte) { return static_cast<unsigned char>(byte) < 0x20 || byte == 0x7f; }

Key control_key(char byte) {
  switch (byte) {
    case 'A' - '@':
      return Key::home;
    case 'B' - '@':
      return Key::left;
    case 'C' - '@':
      return Key::interrupt;
    case 'D' - '@':
      return Key::end_of_input;
    case 'E' - '@':
      return Key::end;
    case 'F' - '@':
      return Key::right;
    case '\b':
    case '\x7f':
      return Key::backspace;
    case '\t':
      return Key::text;
    case '\n':
    case '\r':
      return Key::enter;
    case 'K' - '@':
      return Key::erase_to_end;
    case 'L' - '@':
      return Key::clear_screen;
    case 'N' - '@':
      return Key::newer;
    case 'P' - '@':
      return Key::older;
    case 'U' - '@':
      return Key::erase_to_begin;
    case 'W' - '@':
      return Key::erase_word_left;
    case 'Y' - '@':
      return Key::insert_erased;
    case 'Z' - '@':
      return Key::suspend;
    default:
      return Key::unknown;
  }
}

/// A key together with Alt, which terminals send as Escape and the key.
Key alt_key(char byte) {
  switch (byte) {
    case 'b':
      return Key::word_left;
    case 'f':
      return Key::word_right;
    case 'd':
      return Key::erase_word_right;
    case '\b':
    case '\x7f':
      return Key::erase_word_left;
    case '\r':
    case '\n':
      return Key::new_line;
    default:
      return Key::unknown;
  }
}

/// Keys whose sequence ends in a letter.
Key letter_key(char letter, bool has_modifier) {
  switch (letter) {
    case 'A':
      return Key::up;
    case 'B':
      return Key::down;
    case 'C':
      return has_modifier ? Key::word_right : Key::right;
    case 'D':
      return has_modifier ? Key::word_left : Key::left;
    case 'F':
      return Key::end;
    case 'H':
      return Key::home;
    case 'M':
      return Key::enter;  // of the number pad
    default:
      return Key::unknown;
  }
}

/// Keys whose sequence is a number and ~, of xterm, the Linux console and rxvt.
Key number_key(std::string_view parameters) {
  const std::string_view number = parameters.substr(0, parameters.find(';'));
  if (number == "1" || number == "7") return Key::home;
  if (number == "4" || number == "8") return Key::end;
  if (number == "3") return number == parameters ? Key::erase : Key::erase_word_right;
  return Key::unknown;
}

/// Whether the bytes are the beginning of one character.
bool is_incomplete(std::string_view bytes) {
  const auto lead = static_cast<unsigned char>(bytes[0]);
  if (lead < 0xc2 || lead > 0xf4 || bytes.size() >= text::utf8_length(bytes[0])) return false;
  return std::ranges::all_of(bytes.substr(1), [](char byte) { return (byte & 0xc0) == 0x80; });
}

std::string with_line_breaks(std::string_view pasted) {
  std::string text;
  for (size_t at = 0; at < pasted.size(); ++at) {
    if (pasted[at] == '\n' && at > 0 && pasted[at - 1] == '\r') continue;
    text += pasted[at] == '\r' ? '\n' : pasted[at];
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

}  // namespace

std::string KeyDecoder::taken(size_t count) {
  std::string result = bytes_.substr(0, count);
  bytes_.erase(0, count);
  return result;
}

std::optional<KeyPress> KeyDecoder::next() {
  if (is_pasting_) return pasted();
  if (bytes_.empty()) return {};
  if (bytes_[0] == '\x1b') return escape();
  if (!is_control(bytes_[0])) return characters();
  const std::string byte = taken(1);
  const Key key = control_key(byte[0]);
  return KeyPress{key, key == Key::text ? byte : ""};
}

std::optional<KeyPress> KeyDecoder::escape() {
  if (bytes_.size() < 2) return {};
  if (bytes_[1] == '[') return control_sequence();
  if (bytes_[1] == 'O') {
    if (bytes_.size() < 3) return {};
    return KeyPress{letter_key(taken(3)[2], false)};
  }
  if (bytes_[1] == '\x1b') return taken(1), KeyPress{};
  return KeyPress{alt_key(taken(2)[1])};
}

std::optional<KeyPress> KeyDecoder::control_sequence() {
  size_t end = 2;  // ECMA-48: bytes 0x20 … 0x3f, then one byte 0x40 … 0x7e
  while (end < bytes_.size() && bytes_[end] >= 0x20 && bytes_[end] < 0x40) ++end;
  if (end == bytes_.size()) return {};
  if (bytes_[end] < 0x40 || bytes_[end] == 0x7f) return taken(end), KeyPress{};  // not a sequence
  const std::string sequence = taken(end + 1);
  const std::string_view parameters = std::string_view(sequence).substr(2, end - 2);
  if (sequence.back() != '~' && sequence.back() != 'u') {
    return KeyPress{letter_key(sequence.back(), parameters.find(';') != std::string_view::npos)};
  }
  if (parameters == "13;2" || parameters == "27;2;13") return KeyPress{Key::new_line};  // Shift-Enter
  if (sequence.back() == 'u') return KeyPress{};
  if (parameters != "200") return KeyPress{number_key(parameters)};
  is_pasting_ = true;
  searched_ = 0;
  return pasted();
}

std::optional<KeyPress> KeyDecoder::pasted() {
  const size_t end = bytes_.find(kPasteEnd, searched_);
  if (end == std::string::npos) {
    searched_ = bytes_.size() - std::min(bytes_.size(), kPasteEnd.size() - 1);
    return {};
  }
  is_pasting_ = false;
  std::string text = with_line_breaks(taken(end));
  taken(kPasteEnd.size());
  return KeyPress{Key::paste, repair_utf8(text).text};
}

std::optional<KeyPress> KeyDecoder::characters() {
  const auto end = std::ranges::find_if(bytes_, is_control);
  const std::string_view run(bytes_.begin(), end);
  const size_t valid = valid_utf8_prefix(run);
  if (valid > 0) return KeyPress{Key::text, taken(valid)};
  if (end == bytes_.end() && is_incomplete(run)) return {};
  return taken(1), KeyPress{Key::text, "\ufffd"};
}

void KeyDecoder::give_up_escape() {
  if (is_ambiguous()) bytes_.clear();
}

}  // namespace attend::cli
