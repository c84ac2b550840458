#include "cli/line_work.h"

#include <algorithm>
#include <filesystem>
#include <iostream>

#include "cli/command_line.h"
#include "cli/train_print.h"

namespace attend::cli {
namespace {

constexpr size_t kFirstLines = 32;

/// Replaces `-` as the only text by standard input.
TextInputOptions with_standard_input(TextInputOptions input) {
  if (std::ranges::find(input.texts, "-") == input.texts.end()) return input;
  if (input.texts.size() > 1) throw UsageError("- is standard input and cannot be combined with other texts");
  input.texts.clear();
  input.file = "-";
  return input;
}

std::string counted_lines(int64_t count) { return grouped(static_cast<double>(count)); }

}  // namespace

LineWork::LineWork(std::string command, const CommonOptions& common, const LineWorkOptions& options)
    : command_(std::move(command)),
      common_(common),
      options_(options),
      input_(with_standard_input(common.input)),
      output_(common.output) {
  if (!options_.are_texts_files) {
    for (const std::string& text : common.input.texts) suggest_file(text, "-i %FILE");
  }
}

std::vector<std::string> LineWork::next() {
  before_ += chunk_;
  // Small chunks at first, so that a run stopped early has some results to keep.
  ChunkLimits limits = options_.chunk;
  limits.lines = std::min(limits.lines, std::max(kFirstLines, static_cast<size_t>(before_)));
  std::vector<std::string> lines = input_.chunk(limits);
  if (is_stop_requested()) lines.clear();
  chunk_ = std::ssize(lines);
  is_at_end_ = lines.empty() && !is_stop_requested();
  return lines;
}

std::optional<int64_t> LineWork::total() {
  if (!is_counted_) total_ = input_.total();
  is_counted_ = true;
  return total_;
}

void LineWork::done(int64_t lines) {
  done_ += lines;
  computed(0);
}

void LineWork::computed(int64_t lines) {
  if (!status_.is_shown() || input_.is_interactive() || is_stop_requested()) return;
  status_.count(std::max(done_, before_ + lines), total(), options_.unit);
}

void LineWork::cut(int64_t index) {
  if (++cut_ == 1) first_cut_ = before_ + index + 1;
}

void LineWork::flush() {
  if (output_.path().empty()) status_.clear();
  output_.flush();
}

void LineWork::warn_of_cuts(int64_t longest) const {
  if (cut_ == 0) return;
  std::cerr << "attend: truncated " << cut_ << (cut_ == 1 ? " line" : " lines") << " to the model's maximum of "
            << longest << " tokens (" << (cut_ == 1 ? "line " : "the first is line ") << first_cut_ << ")\n";
}

std::string LineWork::stop_message() {
  const std::string& path = output_.path();
  if (is_partial_) return std::string("stopped") + (path.empty() ? "" : "; the text so far is in " + shell_word(path));
  if (done_ == 0) return "stopped before the first result" + (path.empty() ? "" : "; " + path + " was not written");
  const std::optional<int64_t> all = total();
  std::string text = "stopped after " + counted_lines(done_);
  if (all) text += " of " + counted_lines(*all);
  text += std::string(" ") + options_.unit;
  if (!path.empty()) text += "; their results are in " + shell_word(path);
  const std::string& file = common_.input.file;
  if (!all || !options_.is_continuable || !common_.input.texts.empty() || file == "-" || file.ends_with(".gz")) {
    return text;
  }
  return text + "; to continue: tail -n +" + std::to_string(done_ + 1) + " " + shell_word(file) + " | attend " +
         command_ + " " + shell_word(common_.model) + " …" + (path.empty() ? "" : " >> " + shell_word(path));
}

void LineWork::finish(int64_t longest) {
  status_.clear();
  const bool is_finished = is_at_end_ && done_ == before_;
  const bool is_stopped = is_stop_requested() && !is_finished && (is_partial_ || total() != done_);
  if (!is_stopped || done_ > 0 || is_partial_) output_.finish();
  warn_of_cuts(longest);
  if (is_stopped) {
    std::cerr << "attend: " << stop_message() << '\n';
    exit_by_signal();
  }
  speed_.print(common_.bench);
}

void suggest_file(const std::string& text, const std::string& how) {
  constexpr size_t kLongestPath = 4096;
  std::error_code error;
  if (text.empty() || text.size() > kLongestPath || !std::filesystem::is_regular_file(text, error)) return;
  std::string advice = how;
  advice.replace(advice.find("%FILE"), 5, shell_word(text));
  std::cerr << "attend: '" << text << "' is used as text, but a file of that name exists; to read the file: " << advice
            << '\n';
}

}  // namespace attend::cli
