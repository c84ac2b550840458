#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "attend/text/tokenizer.h"

namespace attend {

struct LineOptions {
  bool lossy = false;      ///< bytes that are not UTF-8 become U+FFFD and are counted, instead of an error
  bool keep_mark = false;  ///< a byte order mark at the very beginning is part of the first line
};

/// Reads a text line by line, holding one line and a buffer. The path `-` is the standard input, which can be read
/// once. Data that begins as gzip does is unpacked, whatever the file is called. Lines end with LF or CR LF; the last
/// may end without. A byte order mark at the very beginning is left out unless asked for.
class LineReader {
 public:
  /// Throws FormatError if the file cannot be opened.
  explicit LineReader(const std::string& path, LineOptions options = {});
  ~LineReader();
  LineReader(LineReader&&) noexcept;
  LineReader& operator=(LineReader&&) noexcept;

  /// The next line, without its end; false when there is none. Throws FormatError: `FILE:LINE: not UTF-8`, for a line
  /// over 256 MiB, or for damaged gzip data.
  bool next(std::string& line);
  /// The same without looking at what is in the line.
  bool skip();

  const std::string& name() const;    ///< the path, or `stdin`
  int64_t lines() const;              ///< read so far
  int64_t replaced() const;           ///< U+FFFD put in so far
  bool ended_with_line_feed() const;  ///< of the line read last

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// All lines of some files one after the other, as train_tokenizer wants them.
LineSource line_source(std::vector<std::string> paths, LineOptions options = {});

/// Copies the standard input to a file, atomically, for what has to be read more than once.
void save_stdin(const std::string& path);

}  // namespace attend
