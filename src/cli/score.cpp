#include "cli/commands.h"

#include <cmath>
#include <cstdio>
#include <memory>

#include "attend/base/error.h"
#include "attend/generate/score.h"
#include "cli/command_line.h"
#include "cli/json_text.h"
#include "cli/line_work.h"
#include "cli/model_folder.h"
#include "cli/processes.h"
#include "cli/signals.h"

namespace attend::cli {
namespace {

constexpr const char* kScoreExamples = R"(
Examples:
  attend score en-de --source test.en --target test.de
  printf 'A dog runs.\tEin Hund läuft.\n' | attend score en-de
  attend score shakespeare "To be, or not to be" --json
  attend score shakespeare -i test.txt --whole-text --total

A translation model reads lines of source, tab, target, or two aligned files; a language model reads lines of text. Each
output line has log p (natural logarithm), a tab, and the number of tokens; an empty line stays empty. --json adds the
log p of each token.)";

struct ScoreArguments {
  CommonOptions common;
  std::string source, target;
  bool whole_text = false, total = false;
};

/// The targets of source lines: after a tab in the same line, or in a separate file.
class Targets {
 public:
  explicit Targets(const ScoreArguments& arguments) {
    if (arguments.source.empty()) return;
    file_.emplace(TextInputOptions{.file = arguments.target, .lossy = arguments.common.input.lossy});
    names_ = arguments.source + " and " + arguments.target;
  }

  /// The targets of `lines`, which follow `before` others. Lines with tabs are reduced to their sources.
  std::vector<std::string> of(std::vector<std::string>& lines, int64_t before) {
    if (file_) return aligned(before, lines.size());
    std::vector<std::string> targets;
    for (std::string& line : lines) {
      ++before;
      const size_t tab = line.find('\t');
      require<FormatError>(tab != std::string::npos || line.empty(), "line ", before,
                           ": expected source, tab, target; found no tab");
      targets.push_back(line.empty() ? "" : line.substr(tab + 1, line.find('\t', tab + 1) - tab - 1));
      line.resize(line.empty() ? 0 : tab);
    }
    return targets;
  }

  /// Throws unless the target file has `lines` lines.
  void check_end(int64_t lines) {
    if (!file_ || is_stop_requested()) return;
    skip_to(lines);
    require_same(file_->chunk({.lines = 1}).empty());
  }

 private:
  /// Skips the lines of other processes.
  void skip_to(int64_t line) {
    for (; position_ < line; ++position_) require_same(!file_->chunk({.lines = 1}).empty() || is_stop_requested());
  }
  std::vector<std::string> aligned(int64_t before, size_t count) {
    skip_to(before);
    std::vector<std::string> targets = file_->chunk({.lines = count, .bytes = SIZE_MAX});
    position_ += std::ssize(targets);
    require_same(targets.size() == count || is_stop_requested());
    targets.resize(count);
    return targets;
  }
  void require_same(bool is_same) const { require<FormatError>(is_same, names_, " have different numbers of lines"); }

  std::optional<TextInput> file_;
  int64_t position_ = 0;
  std::string names_;
};

/// Writes the scores, and their total.
class Report {
 public:
  Report(const ScoreArguments& arguments, const Tokenizer& tokenizer, LineWork& work)
      : arguments_(arguments), tokenizer_(tokenizer), work_(work) {}

  /// Adds the score of line `index` of the chunk.
  void add(const TextScore& score, size_t index, bool is_blank) {
    if (score.is_cut && !is_blank) work_.cut(static_cast<int64_t>(index));
    log_probability_ += score.log_probability;
    tokens_ += std::ssize(score.log_probabilities);
    ++texts_;
    if (arguments_.total) return;
    if (arguments_.common.json) {
      work_.output().line(json_line(to_json(score)));
    } else {
      work_.output().line(
          is_blank ? "" : score_text(score.log_probability) + "\t" + std::to_string(score.log_probabilities.size()));
    }
  }
  void flush(size_t lines) {
    work_.flush();
    work_.done(static_cast<int64_t>(lines));
  }

  void finish(int64_t context) {
    const double perplexity = tokens_ > 0 ? std::exp(-log_probability_ / static_cast<double>(tokens_)) : 1;
    if (arguments_.total && arguments_.common.json) {
      work_.output().line(json_line(
          {{"texts", texts_}, {"tokens", tokens_}, {"log_probability", log_probability_}, {"perplexity", perplexity}}));
    } else if (arguments_.total) {
      work_.output().line("texts " + std::to_string(texts_) + "\ttokens " + std::to_string(tokens_) + "\tlog p " +
                          score_text(log_probability_) + "\tperplexity " + score_text(perplexity));
    }
    work_.speed().add(tokens_);
    work_.finish(context);
  }

 private:
  Json to_json(const TextScore& score) const {
    Json tokens = Json::array();
    for (size_t i = 0; i < score.log_probabilities.size(); ++i) {
      tokens.push_back({{"token", tokenizer_.token(score.ids[i])}, {"log_probability", score.log_probabilities[i]}});
    }
    return {{"log_probability", score.log_probability},
            {"tokens", score.log_probabilities.size()},
            {"perplexity", perplexity(std::span(&score, 1))},
            {"token_scores", std::move(tokens)},
            {"cut", score.is_cut}};
  }

  const ScoreArguments& arguments_;
  const Tokenizer& tokenizer_;
  LineWork& work_;
  double log_probability_ = 0;
  int64_t tokens_ = 0, texts_ = 0;
};

void score_pairs_of(const ScoreArguments& arguments, const ModelFolder& folder, LineWork& work, Report& report) {
  const PairModel& model = pair_model(folder);
  Targets input(arguments);
  for (auto sources = work.next(); !sources.empty(); sources = work.next()) {
    const std::vector<std::string> targets = input.of(sources, work.before());
    if (is_stop_requested()) break;
    const auto scores = score_pairs(model, *folder.tokenizer, sources, targets, {.rules = folder.rules});
    for (size_t i = 0; i < scores.size(); ++i) {
      const bool is_blank = sources[i].empty() && targets[i].empty();
      report.add(is_blank ? TextScore{} : scores[i], i, is_blank);
    }
    report.flush(sources.size());
  }
  if (is_first_process()) input.check_end(work.read());
}

void score_texts_of(const ScoreArguments& arguments, const ModelFolder& folder, LineWork& work, Report& report) {
  const LanguageModel& model = language_model(folder);
  const ScoreOptions options{.rules = folder.rules};
  if (arguments.whole_text) {
    if (!is_first_process()) return;
    const std::string text = work.rest();
    report.add(score_texts(model, *folder.tokenizer, std::span(&text, 1), options)[0], 0, false);
    return report.flush(1);
  }
  for (auto lines = work.next(); !lines.empty(); lines = work.next()) {
    const auto scores = score_texts(model, *folder.tokenizer, lines, options);
    for (size_t i = 0; i < scores.size(); ++i) report.add(scores[i], i, scores[i].log_probabilities.empty());
    report.flush(lines.size());
  }
}

/// Throws if the model has no text probabilities or does not support the options.
void check_model(const ScoreArguments& arguments, const ModelFolder& folder) {
  const bool is_pairs = folder.model->kind() == ModelKind::translation;
  if (!is_pairs) language_model(folder);
  if (!is_pairs && !arguments.source.empty()) {
    throw UsageError("--source and --target apply only to translation models; " + folder.path +
                     " is a language model and scores plain text");
  }
  if (is_pairs && arguments.whole_text) {
    throw UsageError("--whole-text applies only to language models; " + folder.path + " is a translation model");
  }
}

void run_score(const ScoreArguments& arguments) {
  const Device device = use(arguments.common.compute);
  if (arguments.source.empty() != arguments.target.empty()) {
    throw UsageError("--source and --target require each other");
  }
  if (!arguments.source.empty() && !arguments.common.input.texts.empty()) {
    throw UsageError("texts cannot be combined with --source and --target");
  }
  const ModelFolder folder = open_model(arguments.common.model, arguments.common.weights, device);
  const PrecisionScope precision(arguments.common.weights.precision(device), device);
  check_model(arguments, folder);
  CommonOptions common = arguments.common;
  if (!arguments.source.empty()) common.input.file = arguments.source;
  LineWork work("score", common,
                {.is_continuable = !arguments.total && arguments.source.empty(),
                 .is_divisible = !arguments.total && !arguments.whole_text});
  Report report(arguments, *folder.tokenizer, work);
  folder.model->kind() == ModelKind::translation ? score_pairs_of(arguments, folder, work, report)
                                                 : score_texts_of(arguments, folder, work, report);
  report.finish(folder.model->context());
}

}  // namespace

void add_score(Command& app) {
  Command* command = app.add_subcommand("score", "Compute the log-probability of texts or translation pairs");
  const auto arguments = std::make_shared<ScoreArguments>();
  add_model_options(*command, arguments->common);
  add_text_options(*command, arguments->common);
  command->add_option("--source", arguments->source, "Source sentences of a translation model, one per line")
      ->type_name("FILE");
  command->add_option("--target", arguments->target, "Target sentences, aligned with --source")->type_name("FILE");
  add_whole_text(*command, arguments->whole_text);
  command->add_flag("--total", arguments->total, "Print only totals: texts, tokens, log p, perplexity");
  command->footer(kScoreExamples);
  command->callback([arguments] { run_score(*arguments); });
}

}  // namespace attend::cli
