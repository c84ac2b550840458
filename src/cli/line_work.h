#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/shared_options.h"
#include "cli/signals.h"
#include "cli/status_line.h"
#include "cli/text_files.h"

namespace attend::cli {

struct LineWorkOptions {
  const char* unit = "lines";    ///< unit of the input, in the plural
  ChunkLimits chunk{};           ///< at most one chunk is lost when a command is stopped
  bool is_continuable = true;    ///< results of the remaining lines can be appended to the output
  bool are_texts_files = false;  ///< the texts are names of image files
  bool is_divisible = true;      ///< several processes may share the lines; otherwise the first one gets them all
};

/// The common part of all commands that turn lines into results: reads the input in chunks, shows progress on a
/// terminal, warns of truncated lines, and keeps finished results after Ctrl-C or SIGTERM. Load the model before
/// constructing it: from then on, signals only request a stop.
///
/// If a launcher started several processes, the first one reads the input and writes the output. In each round every
/// process gets a chunk, and the results are written in the order of the input.
class LineWork {
 public:
  /// `command` is the name of the command. `-` as the only text is standard input. Throws a usage error for `-`
  /// among other texts. Prints a hint on standard error if a text is also the name of a file.
  LineWork(std::string command, const CommonOptions& common, const LineWorkOptions& options = {});

  /// The next lines; empty at the end or after a signal.
  std::vector<std::string> next();
  /// All of the input as one text.
  std::string rest();
  int64_t before() const { return before_; }  ///< number of lines before the last chunk from next()
  int64_t read() const { return read_; }      ///< number of lines read so far, by all processes

  /// Reports that the results of `lines` more lines are in the output.
  void done(int64_t lines = 1);
  /// Updates the progress display: `lines` lines of the chunk are computed but not yet written.
  void computed(int64_t lines);
  /// Reports that line `index` of the chunk was truncated.
  void cut(int64_t index);
  /// Marks the output as the partial result of the only line, to be kept after a signal.
  void keep_partial() { is_partial_ = true; }
  /// Writes out the results; clears the status line first if they go to standard output.
  void flush();

  TextOutput& output() { return output_; }
  Speed& speed() { return speed_; }
  /// Finishes the output and warns of lines truncated to `longest` tokens. After a signal, prints how many lines are
  /// finished and exits.
  void finish(int64_t longest);

 private:
  std::optional<int64_t> total();
  void warn_of_cuts(int64_t longest) const;
  std::vector<std::string> chunk();
  std::vector<std::string> next_of_round();
  void collect();
  std::string stop_message();

  StopAfterLines stop_;  // before the output is opened
  std::string command_;
  const CommonOptions& common_;
  LineWorkOptions options_;
  TextInput input_;
  TextOutput output_;
  StatusLine status_;
  Speed speed_;
  std::optional<int64_t> total_;
  bool is_counted_ = false, is_at_end_ = false, is_partial_ = false;
  int64_t before_ = 0, read_ = 0, chunk_ = 0, done_ = 0, cut_ = 0, first_cut_ = 0;

  /// What one process has done in a round that several share.
  struct Round {
    int64_t lines = 0, finished = 0, tokens = 0, cut = 0, first_cut = 0, is_stopped = 0;
  };
  Round round_;
  bool is_first_, is_shared_;  // whether this process reads and writes; whether several share the lines
  bool is_round_open_ = false, is_last_round_ = false, is_stopped_ = false;
};

/// If `text` is the name of a file, prints `how` to read that file on standard error, with %FILE replaced by the name.
void suggest_file(const std::string& text, const std::string& how);

}  // namespace attend::cli
