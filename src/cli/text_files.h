#pragma once

#include <chrono>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "attend/data/lines.h"
#include "io/atomic_file.h"

// Text input and output of the commands that use a model.
namespace attend::cli {

struct TextInputOptions {
  std::vector<std::string> texts;  ///< texts given as arguments; if any, no file is read
  std::string file = "-";          ///< may be gzip-compressed; - is standard input
  bool lossy = false;              ///< replace invalid UTF-8
  bool unbuffered = false;         ///< return each line of standard input as soon as it arrives
};

/// Limits on the lines read at once; at least one line is read.
struct ChunkLimits {
  size_t lines = 512;
  size_t bytes = size_t{1} << 15;  ///< no further line is read beyond this size
};

/// Reads lines in chunks, so that the input may be of any length; one line at a time from a terminal. Ends after a
/// signal that asks the command to stop, see cli/signals.h.
class TextInput {
 public:
  explicit TextInput(const TextInputOptions& options);

  /// The next lines; empty at the end. Throws FormatError with the line number for invalid UTF-8.
  std::vector<std::string> chunk(const ChunkLimits& limits = {});
  /// The rest of the input, with its line breaks.
  std::string rest();
  /// The number of lines in the whole input; nullopt if the input can be read only once. Reads the file.
  std::optional<int64_t> total() const;
  bool is_interactive() const { return is_interactive_; }

 private:
  bool next(std::string& line);
  bool next_typed(std::string& line);  // from a terminal, or unbuffered

  TextInputOptions options_;
  size_t next_text_ = 0;
  bool is_interactive_ = false;
  int64_t lines_ = 0;
  std::optional<LineReader> reader_;
  std::string typed_;  // read from standard input and not returned yet
};

/// The argument itself; for `-`, all of standard input without trailing line breaks.
std::string text_or_input(const std::string& argument);

/// Resolves symbolic links, so that a temporary file renamed over the result replaces the file and not the link.
/// Returns other paths unchanged. Throws Error for a loop of links.
std::string behind_links(const std::string& path);

/// Standard output, or a file that appears complete when finish() is called and not before. Symbolic links are
/// followed, not replaced. Devices and named pipes are written to directly.
class TextOutput {
 public:
  /// An empty path or - is standard output.
  explicit TextOutput(const std::string& path);

  void line(const std::string& text);
  /// From now on, writes nothing before flush(), however much is buffered.
  void hold() { is_held_ = true; }
  /// Appends bytes without a line break.
  void bytes(const std::string& content) { pending_ += content; }
  /// Everything buffered so far, which is no longer buffered.
  std::string take() { return std::exchange(pending_, {}); }
  /// Writes out everything buffered so far. Throws Error if that fails.
  void flush();
  void finish();
  /// The path as given; empty for standard output.
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::unique_ptr<AtomicFile> file_;
  std::ofstream device_;
  std::string pending_;
  bool is_held_ = false;
};

/// The text on one line: line breaks and tabs become spaces.
std::string in_one_line(std::string text);
/// The text made safe for a terminal: control characters other than line feed and tab become symbols (␛).
std::string without_controls(const std::string& text);

/// Measures tokens per second since its construction.
class Speed {
 public:
  void add(int64_t tokens) { tokens_ += tokens; }
  int64_t take() { return std::exchange(tokens_, 0); }  ///< the tokens so far, which no longer count
  double seconds() const;
  double tokens_per_second() const;
  /// Prints `1,234 tokens in 5.6 s: 220 tokens/s` on standard error if `always` is set or if it is a terminal.
  void print(bool always) const;

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  int64_t tokens_ = 0;
};

}  // namespace attend::cli
