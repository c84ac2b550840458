#include "cli/turn_reader.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <iostream>

#include "attend/base/error.h"
#include "attend/text/utf8.h"
#include "cli/line_painter.h"
#include "cli/raw_terminal.h"
#include "cli/signals.h"

namespace attend::cli {
namespace {

constexpr std::string_view kFence = "\"\"\"";
constexpr size_t kLongestTurn = size_t{64} << 20;

}  // namespace

TurnReader::TurnReader() : is_interactive_(isatty(STDIN_FILENO) == 1) {
  if (!RawTerminal::is_supported()) return;
  terminal_ = std::make_unique<RawTerminal>();
  painter_ = std::make_unique<LinePainter>();
}
TurnReader::~TurnReader() = default;

TurnReader::Event TurnReader::next(Turn& next) {
  if (can_edit()) return edited(next);
  next.is_pasted = false;
  return turn(next.text);
}

TurnReader::Event TurnReader::edited(Turn& turn) {
  using Outcome = LineEditor::Outcome;
  const auto print = [](const std::string& bytes) { std::cout << bytes << std::flush; };
  terminal_->read_keys();
  while (true) {
    while (const auto key = take_interrupt() ? std::optional(KeyPress{Key::interrupt}) : keys_.next()) {
      const std::string before = editor_.text();
      switch (editor_.press(*key)) {
        case Outcome::none:
          break;
        case Outcome::entered:
          print(painter_->finish(before));
          terminal_->read_signals();
          turn = editor_.take();
          return Event::turn;
        case Outcome::emptied:
          print(painter_->finish(before + "^C"));
          return Event::emptied;
        case Outcome::interrupted:
          painter_->forget();
          return Event::interrupted;
        case Outcome::ended:
          return Event::end;
        case Outcome::cleared:
          print(painter_->clear_screen());
          break;
        case Outcome::suspended:
          print(painter_->finish(before));
          terminal_->suspend();
          break;
      }
    }
    if (is_at_end_) return Event::end;
    print(painter_->paint(editor_.text(), editor_.cursor(), terminal_->size()));
    require<Error>(std::cout.good(), "cannot write to the terminal");
    read_keys();
  }
}

/// Waits for keys, an interrupt or another size of the screen.
void TurnReader::read_keys() {
  constexpr int kEscape = 50, kLook = 100;  // milliseconds
  const ScreenSize size = terminal_->size();
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  while (poll(&input, 1, keys_.is_ambiguous() ? kEscape : kLook) <= 0) {
    keys_.give_up_escape();
    if (is_interrupted() || terminal_->size() != size) return;
  }
  std::array<char, 4096> buffer;
  const ssize_t count = read(STDIN_FILENO, buffer.data(), buffer.size());
  if (count > 0) {
    keys_.feed({buffer.data(), static_cast<size_t>(count)});
    require<FormatError>(keys_.size() + editor_.text().size() <= kLongestTurn, "standard input: a turn is too long");
  } else if (count == 0 || (errno != EINTR && errno != EAGAIN)) {
    is_at_end_ = true;  // the terminal was closed
  }
}

TurnReader::Event TurnReader::turn(std::string& turn) {
  Event event = line(turn, "> ");
  if (event != Event::turn) return event;
  if (turn.starts_with(kFence)) return block(turn);
  while (turn.ends_with('\\')) {
    turn.back() = '\n';
    std::string more;
    event = line(more, ". ");
    if (event == Event::interrupted) return event;
    if (event == Event::end) break;
    require<FormatError>(turn.size() + more.size() <= kLongestTurn, "standard input: a turn is too long");
    turn += more;
  }
  return Event::turn;
}

/// Reads the rest of a block whose first line is in `turn`. Line breaks next to the quotes are not part of the text.
TurnReader::Event TurnReader::block(std::string& turn) {
  std::string text = turn.substr(kFence.size());
  turn.clear();
  while (true) {
    const bool is_last = text.ends_with(kFence);
    if (is_last) text.resize(text.size() - kFence.size());
    if (!turn.empty() && !(is_last && text.empty())) turn += '\n';
    turn += text;
    if (is_last) return Event::turn;
    require<FormatError>(turn.size() <= kLongestTurn, "standard input: a turn is too long");
    const Event event = line(text, ". ");
    if (event == Event::interrupted) return event;
    if (event == Event::end) return Event::turn;
  }
}

TurnReader::Event TurnReader::line(std::string& text, const char* prompt) {
  std::array<char, 4096> buffer;
  if (is_interactive_) std::cerr << prompt << std::flush;
  while (true) {
    const size_t end = pending_.find('\n');
    if (end != std::string::npos || (is_at_end_ && !pending_.empty())) {
      text = pending_.substr(0, end);
      pending_.erase(0, end == std::string::npos ? end : end + 1);
      ++lines_;
      if (text.ends_with('\r')) text.pop_back();
      if (is_utf8(text)) return Event::turn;
      require<FormatError>(is_interactive_, "standard input, line ", lines_, ": expected UTF-8");
      std::cerr << "This line is not UTF-8; please type it again.\n" << prompt << std::flush;
      continue;
    }
    if (is_at_end_) return Event::end;
    if (!wait_for_turn()) {
      take_interrupt();
      pending_.clear();
      return Event::interrupted;
    }
    require<FormatError>(pending_.size() <= kLongestTurn, "standard input: line ", lines_ + 1, " is too long");
    const ssize_t count = read(STDIN_FILENO, buffer.data(), buffer.size());
    if (count > 0) {
      pending_.append(buffer.data(), static_cast<size_t>(count));
    } else if (count == 0) {
      is_at_end_ = true;
    } else {
      require<Error>(errno == EINTR || errno == EAGAIN, "cannot read standard input");
    }
  }
}

}  // namespace attend::cli
