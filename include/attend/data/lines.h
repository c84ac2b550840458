#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "attend/text/tokenizer.h"

namespace attend {

struct LineOptions {
  bool lossy = false;      ///< replace and count invalid UTF-8 instead of throwing
  bool keep_mark = false;  ///< keep a byte order mark at the start of the file
};

/// Reads a text file line by line, with one line and a buffer in memory. The path `-` is the standard input, which can
/// be read once. Data with a gzip header is decompressed, independent of the file's name. Lines end with LF or CR LF;
/// the last line may have no line end. A byte order mark at the start is removed unless `keep_mark` is set.
class LineReader {
 public:
  /// Throws FormatError if the file cannot be opened.
  explicit LineReader(const std::string& path, LineOptions options = {});
  ~LineReader();
  LineReader(LineReader&&) noexcept;
  LineReader& operator=(LineReader&&) noexcept;

  /// Reads the next line, without its line end; returns false at the end of the file. Throws FormatError for invalid
  /// UTF-8 (`FILE:LINE: not UTF-8`), a line over 256 MiB, or damaged gzip data.
  bool next(std::string& line);
  /// Skips the next line without checking that it is UTF-8; returns false at the end of the file.
  bool skip();

  const std::string& name() const;    ///< the path, or `stdin`
  int64_t lines() const;              ///< number of lines read so far
  int64_t replaced() const;           ///< number of U+FFFD inserted so far
  bool ended_with_line_feed() const;  ///< whether the last line read had a line end

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// All lines of the files, in order, for train_tokenizer.
LineSource line_source(std::vector<std::string> paths, LineOptions options = {});

/// Copies the standard input to a file, atomically, so that it can be read more than once.
void save_stdin(const std::string& path);

}  // namespace attend
