#include "cli/text_files.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <iostream>

#include "attend/base/error.h"
#include "attend/text/utf8.h"
#include "cli/signals.h"

namespace attend::cli {
namespace {

constexpr size_t kPendingBytes = size_t{1} << 16;

/// Whether the path exists and is neither a regular file nor a folder.
bool is_device(const std::string& path) {
  std::error_code unknown;
  const auto status = std::filesystem::status(path, unknown);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) &&
         !std::filesystem::is_directory(status);
}

/// Waits until standard input has data or has ended. Returns false if a signal requested a stop. A signal just before a
/// blocking read would not interrupt that read, so the wait ends ten times a second to look.
bool wait_for_input() {
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  while (!is_stop_requested()) {
    if (poll(&input, 1, 100) > 0) return true;
  }
  return false;
}

}  // namespace

TextInput::TextInput(const TextInputOptions& options) : options_(options) {
  if (!options_.texts.empty()) return;
  const bool is_stdin = options_.file == "-";
  is_interactive_ = is_stdin && (options_.unbuffered || isatty(STDIN_FILENO) == 1);
  if (!is_interactive_) reader_.emplace(options_.file, LineOptions{.lossy = options_.lossy});
}

bool TextInput::next(std::string& line) {
  if (!options_.texts.empty()) {
    if (next_text_ == options_.texts.size()) return false;
    line = options_.texts[next_text_++];
  } else if (reader_) {
    try {
      return reader_->next(line);
    } catch (const Error&) {
      if (is_stop_requested()) return false;  // the signal interrupted a blocking read
      throw;
    }
  } else if (!next_typed(line)) {
    return false;
  }
  ++lines_;
  if (!is_utf8(line)) {
    const char* name = options_.texts.empty() ? "stdin" : "text";
    require<FormatError>(options_.lossy, name, ':', lines_, ": not UTF-8");
    line = repair_utf8(line).text;
  }
  return true;
}

bool TextInput::next_typed(std::string& line) {
  size_t end = typed_.find('\n');
  while (end == std::string::npos) {
    char buffer[4096];
    const ssize_t count = wait_for_input() ? read(STDIN_FILENO, buffer, sizeof buffer) : 0;
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    const size_t before = typed_.size();
    typed_.append(buffer, static_cast<size_t>(count));
    end = typed_.find('\n', before);
  }
  if (is_stop_requested() || typed_.empty()) return false;
  line = typed_.substr(0, end);
  typed_.erase(0, end == std::string::npos ? end : end + 1);
  return true;
}

std::vector<std::string> TextInput::chunk(const ChunkLimits& limits) {
  std::vector<std::string> lines;
  const size_t most = is_interactive_ ? 1 : limits.lines;
  size_t bytes = 0;
  for (std::string line; lines.size() < most && bytes < limits.bytes && !is_stop_requested() && next(line);) {
    bytes += line.size();
    lines.push_back(std::move(line));
  }
  return lines;
}

std::optional<int64_t> TextInput::total() const {
  if (!options_.texts.empty()) return std::ssize(options_.texts);
  const std::string path = options_.file == "-" ? "/dev/stdin" : options_.file;
  struct stat status {};
  if (is_interactive_ || stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  LineReader reader(path);
  while (reader.skip()) {
  }
  return reader.lines();
}

std::string TextInput::rest() {
  std::string text, line;
  while (next(line)) {
    text += line;
    if (!reader_ || reader_->ended_with_line_feed()) text += '\n';
  }
  return text;
}

std::string text_or_input(const std::string& argument) {
  if (argument != "-") return argument;
  std::string text = TextInput({}).rest();
  while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
  return text;
}

std::string behind_links(const std::string& path) {
  constexpr int kMostLinks = 40;  // the limit of Linux
  std::filesystem::path place = path;
  std::error_code error;
  for (int links = 0; std::filesystem::is_symlink(place, error); ++links) {
    require<Error>(links < kMostLinks, path, ": cannot write: the symbolic links form a loop");
    place = place.parent_path() / std::filesystem::read_symlink(place);
  }
  return place;
}

TextOutput::TextOutput(const std::string& path) : path_(path == "-" ? "" : path) {
  if (path_.empty()) return;
  if (is_device(path_)) {
    device_.open(path_, std::ios::binary);
    require<Error>(device_.good(), path_, ": cannot open for writing");
  } else {
    file_ = std::make_unique<AtomicFile>(behind_links(path_));
  }
}

void TextOutput::line(const std::string& text) {
  pending_ += text;
  pending_ += '\n';
  if (pending_.size() >= kPendingBytes && !is_held_) flush();
}

void TextOutput::flush() {
  if (file_) {
    file_->write(pending_.data(), pending_.size());
  } else {
    std::ostream& out = path_.empty() ? std::cout : device_;
    out << pending_ << std::flush;
    require<Error>(out.good(), "cannot write the output");
  }
  pending_.clear();
}

void TextOutput::finish() {
  flush();
  if (file_) file_->commit();
}

std::string in_one_line(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return c == '\n' || c == '\r' || c == '\t'; }, ' ');
  return text;
}

std::string without_controls(const std::string& text) {
  std::string result;
  for (const char32_t code : code_points(text)) {
    const bool is_control = (code < 0x20 && code != '\n' && code != '\t') || (code >= 0x7f && code < 0xa0);
    append_utf8(result, !is_control ? code : code < 0x20 ? 0x2400 + code : U'\u2421');
  }
  return result;
}

double Speed::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

double Speed::tokens_per_second() const { return static_cast<double>(tokens_) / std::max(seconds(), 1e-9); }

void Speed::print(bool always) const {
  if (!always && isatty(STDERR_FILENO) != 1) return;
  std::fprintf(stderr, "attend: %lld tokens in %.2f s: %.1f tokens/s\n", static_cast<long long>(tokens_), seconds(),
               tokens_per_second());
}

}  // namespace attend::cli
