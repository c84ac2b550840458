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
  const char* unit = "lines";    ///< what the input consists of, in the plural
  ChunkLimits chunk{};           ///< a chunk is what is lost at most when a command is stopped
  bool is_continuable = true;    ///< output of the remaining lines can be appended to what there is
  bool are_texts_files = false;  ///< the input names files: of pictures
};

/// What all commands do alike that turn many lines into many results: they read chunks, show how far they have come on
/// a terminal, warn of lines that were cut, and after Ctrl-C or SIGTERM keep what is finished. The model comes first:
/// from the construction on signals only ask to stop.
class LineWork {
 public:
  /// `command` is the name of the command. `-` as the only text is the standard input. Throws a usage error for `-`
  /// among other texts. Says on standard error if a text is the name of a file, too.
  LineWork(std::string command, const CommonOptions& common, const LineWorkOptions& options = {});

  /// The next lines; none at the end or after a signal.
  std::vector<std::string> next();
  /// All of the input as one text.
  std::string rest() { return input_.rest(); }
  int64_t before() const { return before_; }  ///< lines before those that next() gave last

  /// The results of that many more lines are in the output.
  void done(int64_t lines = 1);
  /// Updates the progress display: `lines` of the lines from next() are computed, but not yet written.
  void computed(int64_t lines);
  /// Line `index` of those next() gave was longer than the model reads.
  void cut(int64_t index);
  /// The output has the beginning of the result of the only line: to be kept after a signal.
  void keep_partial() { is_partial_ = true; }
  /// Passes results on to the output, which may be the terminal that shows the status.
  void flush();

  TextOutput& output() { return output_; }
  Speed& speed() { return speed_; }
  /// Ends the output, and warns of lines with more than `longest` tokens. After a signal it says how many lines are
  /// finished, and ends the process.
  void finish(int64_t longest);

 private:
  std::optional<int64_t> total();
  void warn_of_cuts(int64_t longest) const;
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
  int64_t before_ = 0, chunk_ = 0, done_ = 0, cut_ = 0, first_cut_ = 0;
};

/// If a text is the name of a file, suggests on standard error `how` to read that file; %FILE in it becomes the name.
void suggest_file(const std::string& text, const std::string& how);

}  // namespace attend::cli
