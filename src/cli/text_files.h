#pragma once

#include <chrono>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "attend/data/lines.h"
#include "io/atomic_file.h"

// Where the commands that use a model read text, and where they write it.
namespace attend::cli {

struct TextInputOptions {
  std::vector<std::string> texts;  ///< given as arguments: then nothing else is read
  std::string file = "-";          ///< packed or not; - is the standard input
  bool lossy = false;              ///< replace what is not UTF-8
  bool unbuffered = false;         ///< of the standard input: each line by itself, as it comes
};

/// Limits on the lines that are read at once; at least one is.
struct ChunkLimits {
  size_t lines = 512;
  size_t bytes = size_t{1} << 15;  ///< no further line is read after this many
};

/// Lines in chunks, so that no input is too long; one at a time where a person types them. Ends after a signal that
/// asks the command to stop, see cli/signals.h.
class TextInput {
 public:
  explicit TextInput(const TextInputOptions& options);

  /// The next lines; none at the end. Throws FormatError for text that is not UTF-8, with the line's number.
  std::vector<std::string> chunk(const ChunkLimits& limits = {});
  /// All that is left, with its line breaks.
  std::string rest();
  /// The number of lines from beginning to end; none for input that can be read only once. Reads the file.
  std::optional<int64_t> total() const;
  bool is_interactive() const { return is_interactive_; }

 private:
  bool next(std::string& line);

  TextInputOptions options_;
  size_t next_text_ = 0;
  bool is_interactive_ = false;
  int64_t lines_ = 0;
  std::optional<LineReader> reader_;
};

/// A text given as an argument; `-` is all of the standard input, without line breaks at its end.
std::string text_or_input(const std::string& argument);

/// The path behind a symbolic link, so that a file written beside it and renamed replaces the file and not the link.
/// Other paths stay as they are. Throws Error for links that lead in a circle.
std::string behind_links(const std::string& path);

/// The standard output, or a file that appears whole when finish() is called and not at all before. A link keeps
/// pointing where it did. What is there and not a plain file (a device, a named pipe) is written to as it is.
class TextOutput {
 public:
  /// An empty path, or -, is the standard output.
  explicit TextOutput(const std::string& path);

  void line(const std::string& text);
  /// Something that is not lines.
  void bytes(const std::string& content) { pending_ += content; }
  /// Passes on what was written so far. Throws Error if it cannot be.
  void flush();
  void finish();
  /// As it was given; empty for the standard output.
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::unique_ptr<AtomicFile> file_;
  std::ofstream device_;
  std::string pending_;
};

/// The text in one line: line breaks and tabs become blanks.
std::string in_one_line(std::string text);
/// The text as a terminal may safely get it: control characters but line feeds and tabs become their pictures.
std::string without_controls(const std::string& text);

/// Tokens a second, since it was made.
class Speed {
 public:
  void add(int64_t tokens) { tokens_ += tokens; }
  double seconds() const;
  double tokens_per_second() const;
  /// `1,234 tokens in 5.6 s: 220 tokens/s` on the standard error, if `always` or if that is a terminal.
  void print(bool always) const;

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  int64_t tokens_ = 0;
};

}  // namespace attend::cli
