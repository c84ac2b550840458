#include "cli/line_work.h"

#include <algorithm>
#include <filesystem>
#include <iostream>

#include "cli/command_line.h"
#include "cli/processes.h"
#include "cli/train_print.h"
#include "distributed/group.h"

namespace attend::cli {
namespace {

constexpr size_t kFirstLines = 32;

/// Lines per chunk at first, if several processes share the input: a short input is divided too.
constexpr size_t kFirstShared = 8;

/// Replaces `-` as the only text by standard input. Processes other than the first read nothing.
TextInputOptions with_standard_input(TextInputOptions input) {
  if (!is_first_process()) return {.texts = {""}};
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
      output_(is_first_process() ? common.output : ""),
      is_first_(is_first_process()),
      is_shared_(options.is_divisible && distributed::world().size() > 1) {
  if (is_shared_) output_.hold();  // the first process writes, in the order of the input
  if (!options_.are_texts_files && is_first_) {
    for (const std::string& text : common.input.texts) suggest_file(text, "-i %FILE");
  }
}

std::vector<std::string> LineWork::next() {
  if (is_shared_) return next_of_round();
  if (!is_first_) return {};
  before_ += chunk_;
  std::vector<std::string> lines = chunk();
  chunk_ = std::ssize(lines);
  is_at_end_ = lines.empty() && !is_stop_requested();
  return lines;
}

std::string LineWork::rest() {
  is_counted_ = true;
  total_ = 1;
  return input_.rest();
}

/// The next lines of the input. Small chunks at first, so that a run stopped early has some results to keep.
std::vector<std::string> LineWork::chunk() {
  ChunkLimits limits = options_.chunk;
  const size_t first = is_shared_ ? kFirstShared : kFirstLines;
  const auto so_far = static_cast<size_t>(is_shared_ ? read_ / distributed::world().size() : read_);
  limits.lines = std::min(limits.lines, std::max(first, so_far));
  std::vector<std::string> lines = input_.chunk(limits);
  if (is_stop_requested()) lines.clear();
  read_ += std::ssize(lines);
  return lines;
}

/// The first process reads a chunk for each process. The round in which the input ends is the last one.
std::vector<std::string> LineWork::next_of_round() {
  collect();
  if (is_last_round_) return {};
  distributed::Group& group = distributed::world();
  const int64_t start = read_;
  std::vector<std::string> chunks;
  for (int rank = 0; rank < group.size() && is_first_; ++rank) {
    const std::vector<std::string> lines = is_last_round_ ? std::vector<std::string>{} : chunk();
    is_last_round_ = lines.empty();
    chunks.push_back(distributed::packed(lines));
  }
  chunks = distributed::unpacked(distributed::broadcast(group, distributed::packed(chunks)));
  is_last_round_ = chunks.back().empty();
  is_at_end_ = is_last_round_ && !is_stop_requested();
  is_round_open_ = true;
  read_ = start;
  std::vector<std::string> own;
  for (int rank = 0; rank < group.size(); ++rank) {
    std::vector<std::string> lines = distributed::unpacked(chunks[static_cast<size_t>(rank)]);
    const int64_t count = std::ssize(lines);
    if (rank == group.rank()) before_ = read_, own = std::move(lines);
    read_ += count;
  }
  round_ = {.lines = std::ssize(own)};
  return own;
}

/// Brings the results of a round to the first process. After a signal, it takes those before the first unfinished line.
void LineWork::collect() {
  if (!is_round_open_) return;
  is_round_open_ = false;
  distributed::Group& group = distributed::world();
  round_.tokens = speed_.take();
  round_.is_stopped = is_stop_requested();
  const std::vector<Round> rounds = distributed::all_gather(group, std::vector<Round>{round_});
  const std::vector<std::string> texts = distributed::all_gather(group, output_.take());
  bool is_whole = true;
  for (size_t rank = 0; rank < rounds.size(); ++rank) {
    const Round& round = rounds[rank];
    if (round.is_stopped != 0) is_last_round_ = true, is_at_end_ = false;
    if (is_whole && is_first_) {
      output_.bytes(texts[rank]);
      speed_.add(round.tokens);
      done_ += round.finished;
      if (cut_ == 0) first_cut_ = round.first_cut;
      cut_ += round.cut;
    }
    is_whole = is_whole && round.finished == round.lines;
  }
  is_stopped_ = is_stopped_ || std::ranges::any_of(rounds, [](const Round& round) { return round.is_stopped != 0; });
  if (is_first_) {
    if (output_.path().empty()) status_.clear();
    output_.flush();
    computed(0);
  }
}

std::optional<int64_t> LineWork::total() {
  if (!is_counted_) total_ = input_.total();
  is_counted_ = true;
  return total_;
}

void LineWork::done(int64_t lines) {
  (is_shared_ ? round_.finished : done_) += lines;
  if (!is_shared_) computed(0);
}

void LineWork::computed(int64_t lines) {
  if (!status_.is_shown() || !is_first_ || input_.is_interactive() || is_stop_requested()) return;
  status_.count(std::max(done_, is_shared_ ? 0 : before_ + lines), total(), options_.unit);
}

void LineWork::cut(int64_t index) {
  int64_t& count = is_shared_ ? round_.cut : cut_;
  if (++count == 1) (is_shared_ ? round_.first_cut : first_cut_) = before_ + index + 1;
}

void LineWork::flush() {
  if (is_shared_) return;  // collect() writes
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
  if (is_shared_) collect();
  if (!is_first_) {
    if (is_shared_ && is_stopped_) exit_by_signal();
    return;
  }
  status_.clear();
  const bool is_finished = is_at_end_ && done_ == (is_shared_ ? read_ : before_);
  const bool has_signal = is_shared_ ? is_stopped_ : is_stop_requested();
  const bool is_stopped = has_signal && !is_finished && (is_partial_ || is_shared_ || total() != done_);
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
