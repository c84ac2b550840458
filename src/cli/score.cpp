#include "cli/score.h"

#include <cmath>
#include <cstdio>
#include <iostream>
#include <memory>

#include "attend/base/error.h"
#include "attend/generate/score.h"
#include "cli/json_text.h"
#include "cli/model_folder.h"
#include "cli/model_options.h"

namespace attend::cli {
namespace {

constexpr const char* kScoreExamples = R"(
Examples:
  attend score en-de --source test.en --target test.de
  printf 'A dog runs.\tEin Hund läuft.\n' | attend score en-de
  attend score shakespeare "To be, or not to be" --json
  attend score shakespeare -i test.txt --whole-text --total

A model of pairs reads source, tab, target in each line (or two aligned files), a language model plain lines. Each line
gives log p (natural logarithm), a tab, and the number of tokens; an empty line stays empty. --json adds every token.)";

struct ScoreArguments {
  CommonOptions common;
  std::string source, target;
  bool whole_text = false, total = false;
};

struct Pairs {
  std::vector<std::string> sources, targets;
};

/// Pairs from lines with tabs, or from two files line by line.
class PairInput {
 public:
  explicit PairInput(const ScoreArguments& arguments) : first_(first_options(arguments)) {
    if (!arguments.source.empty()) {
      second_.emplace(TextInputOptions{.file = arguments.target, .lossy = arguments.common.input.lossy});
      names_ = arguments.source + " and " + arguments.target;
    }
  }

  Pairs chunk() {
    Pairs pairs{.sources = first_.chunk(), .targets = {}};
    if (second_) {
      pairs.targets = second_->chunk();
      lines_ += std::ssize(pairs.sources);
      require<FormatError>(pairs.sources.size() == pairs.targets.size(), names_, " have different numbers of lines");
      return pairs;
    }
    for (std::string& line : pairs.sources) {
      ++lines_;
      const size_t tab = line.find('\t');
      require<FormatError>(tab != std::string::npos || line.empty(), "line ", lines_, ": expected source, tab, target");
      pairs.targets.push_back(line.empty() ? "" : line.substr(tab + 1, line.find('\t', tab + 1) - tab - 1));
      line.resize(line.empty() ? 0 : tab);
    }
    return pairs;
  }

 private:
  static TextInputOptions first_options(const ScoreArguments& arguments) {
    TextInputOptions options = arguments.common.input;
    if (!arguments.source.empty()) options.file = arguments.source;
    return options;
  }

  TextInput first_;
  std::optional<TextInput> second_;
  std::string names_;
  int64_t lines_ = 0;
};

/// What all lines have in common, and how they are shown.
class Report {
 public:
  Report(const ScoreArguments& arguments, const Tokenizer& tokenizer)
      : arguments_(arguments), tokenizer_(tokenizer), output_(arguments.common.output) {}

  void add(const TextScore& score, bool is_blank) {
    log_probability_ += score.log_probability;
    tokens_ += std::ssize(score.words);
    ++texts_;
    if (arguments_.total) return;
    if (arguments_.common.json) {
      output_.line(json_line(to_json(score)));
    } else {
      output_.line(is_blank ? "" : score_text(score.log_probability) + "\t" + std::to_string(score.words.size()));
    }
  }
  void flush() { output_.flush(); }

  void finish() {
    const double perplexity = tokens_ > 0 ? std::exp(-log_probability_ / static_cast<double>(tokens_)) : 1;
    if (arguments_.total && arguments_.common.json) {
      output_.line(json_line(
          {{"texts", texts_}, {"tokens", tokens_}, {"log_probability", log_probability_}, {"perplexity", perplexity}}));
    } else if (arguments_.total) {
      output_.line("texts " + std::to_string(texts_) + "\ttokens " + std::to_string(tokens_) + "\tlog p " +
                   score_text(log_probability_) + "\tperplexity " + score_text(perplexity));
    }
    output_.finish();
    speed_.add(tokens_);
    speed_.print(arguments_.common.bench);
  }

 private:
  Json to_json(const TextScore& score) const {
    Json words = Json::array();
    for (size_t i = 0; i < score.words.size(); ++i) {
      words.push_back({{"token", tokenizer_.token(score.ids[i])}, {"log_probability", score.words[i]}});
    }
    return {{"log_probability", score.log_probability},
            {"tokens", score.words.size()},
            {"perplexity", perplexity(std::span(&score, 1))},
            {"words", std::move(words)},
            {"cut", score.is_cut}};
  }

  const ScoreArguments& arguments_;
  const Tokenizer& tokenizer_;
  TextOutput output_;
  Speed speed_;
  double log_probability_ = 0;
  int64_t tokens_ = 0, texts_ = 0;
};

void score_pairs_of(const ScoreArguments& arguments, const ModelFolder& folder, Report& report) {
  const PairModel& model = pair_model(folder);
  PairInput input(arguments);
  for (Pairs pairs = input.chunk(); !pairs.sources.empty(); pairs = input.chunk()) {
    const auto scores = score_pairs(model, *folder.tokenizer, pairs.sources, pairs.targets, {.rules = folder.rules});
    for (size_t i = 0; i < scores.size(); ++i) {
      const bool is_blank = pairs.sources[i].empty() && pairs.targets[i].empty();
      report.add(is_blank ? TextScore{} : scores[i], is_blank);
    }
    report.flush();
  }
}

void score_texts_of(const ScoreArguments& arguments, const ModelFolder& folder, Report& report) {
  const LanguageModel& model = language_model(folder);
  const ScoreOptions options{.rules = folder.rules};
  TextInput input(arguments.common.input);
  if (arguments.whole_text) {
    const std::string text = input.rest();
    report.add(score_texts(model, *folder.tokenizer, std::span(&text, 1), options)[0], false);
    return;
  }
  for (auto lines = input.chunk(); !lines.empty(); lines = input.chunk()) {
    for (const TextScore& score : score_texts(model, *folder.tokenizer, lines, options))
      report.add(score, score.words.empty());
    report.flush();
  }
}

void run_score(const ScoreArguments& arguments) {
  use_threads(arguments.common);
  if (arguments.source.empty() != arguments.target.empty()) {
    throw CLI::ValidationError("--source and --target belong together");
  }
  if (!arguments.source.empty() && !arguments.common.input.texts.empty()) {
    throw CLI::ValidationError("expected texts or --source and --target, got both");
  }
  const ModelFolder folder = open_model(arguments.common.model, arguments.common.weights);
  const MatmulPrecisionScope precision(arguments.common.weights.precision());
  const bool is_pairs = folder.model->task() == Task::translation;
  require<Error>(is_pairs || arguments.source.empty(), folder.path, ": a model of architecture ",
                 folder.model->architecture(), " scores plain text, not --source and --target");
  require<Error>(!is_pairs || !arguments.whole_text, folder.path, ": --whole-text is for language models");
  require<Error>(folder.model->task() != Task::classification && folder.model->task() != Task::pictures, folder.path,
                 ": a classifier gives no text a probability; see attend classify --probabilities");
  Report report(arguments, *folder.tokenizer);
  is_pairs ? score_pairs_of(arguments, folder, report) : score_texts_of(arguments, folder, report);
  report.finish();
}

}  // namespace

void add_score(CLI::App& app) {
  CLI::App* command = app.add_subcommand("score", "Say how likely a model finds texts or pairs");
  const auto arguments = std::make_shared<ScoreArguments>();
  add_model_options(*command, arguments->common);
  add_text_options(*command, arguments->common);
  command->add_option("--source", arguments->source, "Source side of pairs, a line each")->type_name("FILE");
  command->add_option("--target", arguments->target, "Target side, aligned with it")->type_name("FILE");
  command->add_flag("--whole-text", arguments->whole_text, "Score all of the input as one text");
  command->add_flag("--total", arguments->total, "Print only the sum: texts, tokens, log p, perplexity");
  command->footer(kScoreExamples);
  command->callback([arguments] { run_score(*arguments); });
}

}  // namespace attend::cli
