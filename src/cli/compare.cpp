#include "cli/commands.h"

#include <iostream>

#include "attend/base/error.h"
#include "attend/base/threads.h"
#include "attend/io/files.h"
#include "attend/train/compare.h"
#include "cli/command_line.h"
#include "cli/compare_print.h"
#include "cli/shared_options.h"
#include "cli/signals.h"
#include "cli/train_print.h"

namespace attend::cli {
namespace {

using Files = std::vector<std::string>;

constexpr const char* kCompareExamples = R"(
Examples:
  attend compare train.en train.de --test test.en test.de -o comparison
  attend compare pairs.tsv -o comparison --steps 2000 --threads 2
  attend compare train.en train.de -o c --architectures rnn,rnn-attention --set rnn.state_dim=512 --set dropout=0.2
  attend compare --resume comparison                           go on after Ctrl-C

Every model has the same vocabulary, the same pairs in the same order, and as many steps; the learning rate rises, then
falls to nothing at the last step. Their best steps by validation loss translate the test sentences, which are put in
order of length and cut into buckets of about equally many. DIR gets a model folder for each, their translations,
compare.svg (quality by length) and compare.json.)";

struct CompareArguments {
  Files files, test, validation, architectures, settings;
  std::string output, resume, tokenizer;
  ComparisonJob job;
  int64_t vocabulary = 0, threads = 0;
  std::optional<int64_t> beam;
  double held_out = 0;
  bool lowercase = false, lossy = false, overwrite = false, quiet = false, json = false;
};

Corpus pairs_of(const Files& files, bool lossy) {
  if (files.empty() || files.size() > 2) {
    throw UsageError("expected one file of pairs or two aligned files, got " + std::to_string(files.size()));
  }
  Corpus corpus{.kind = CorpusKind::tsv, .files = {files[0]}, .targets = {}, .lossy = lossy};
  if (files.size() == 2) corpus.kind = CorpusKind::pairs, corpus.targets = {files[1]};
  return corpus;
}

/// NAME=VALUE or ARCHITECTURE.NAME=VALUE.
ComparisonSetting setting_of(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw UsageError("--set: expected NAME=VALUE or ARCHITECTURE.NAME=VALUE, got '" + text + "'");
  }
  ComparisonSetting setting{.architecture = "", .name = text.substr(0, equals), .value = text.substr(equals + 1)};
  if (const size_t dot = setting.name.find('.'); dot != std::string::npos) {
    setting.architecture = setting.name.substr(0, dot);
    setting.name.erase(0, dot + 1);
  }
  std::ranges::replace(setting.name, '-', '_');
  return setting;
}

ComparisonJob job_of(const CompareArguments& arguments) {
  ComparisonJob job = arguments.job;
  job.data.corpus = pairs_of(arguments.files, arguments.lossy);
  if (!arguments.validation.empty()) job.data.validation = pairs_of(arguments.validation, arguments.lossy);
  if (!arguments.test.empty()) job.test = pairs_of(arguments.test, arguments.lossy);
  if (!arguments.architectures.empty()) job.architectures = arguments.architectures;
  for (const std::string& text : arguments.settings) job.settings.push_back(setting_of(text));
  if (!arguments.tokenizer.empty()) job.data.tokenizer = arguments.tokenizer;
  if (arguments.vocabulary > 0) job.data.vocabulary = arguments.vocabulary;
  job.data.validation_share = arguments.held_out;
  job.data.lowercase = arguments.lowercase;
  job.beam = arguments.beam.value_or(1);
  return job;
}

ComparisonObserver observer_of(TrainingPrinter& printer) {
  return {.training =
              [&printer](const TrainingFolder& folder) {
                printer.start(folder);
                return printer.observer();
              },
          .trained = [&printer](const TrainingFolder& folder, const TrainingOutcome& outcome,
                                const std::string& path) { printer.finish(folder, outcome, path); },
          .translating = printer.progress()};
}

void check_usage(const CompareArguments& arguments) {
  const bool resumes = !arguments.resume.empty();
  if (resumes && (!arguments.files.empty() || !arguments.output.empty())) {
    throw UsageError("--resume DIR goes on with what DIR holds; no files or -o go with it");
  }
  if (!resumes && arguments.output.empty()) {
    throw UsageError("expected -o DIR, the folder to write, or --resume DIR");
  }
}

void run_compare(const CompareArguments& arguments) {
  check_usage(arguments);
  use_threads(arguments.threads);
  survive_file_limits();
  if (!arguments.quiet) acknowledge_signals();
  std::string path = arguments.resume.empty() ? arguments.output : arguments.resume;
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  TrainingPrinter printer(std::cerr, arguments.quiet);
  std::optional<Comparison> result;
  try {
    ComparisonFolder folder =
        arguments.resume.empty()
            ? ComparisonFolder::create(job_of(arguments), path, arguments.overwrite, stoppable(printer.progress()))
            : ComparisonFolder::open(path);
    result = folder.run(observer_of(printer), &stop_after_saving());
  } catch (const StopRequested&) {
    printer.line("Stopped before training began; nothing was written.");
    exit_by_signal();
  }
  if (!result) {
    printer.line("Stopped; everything is saved.");
    printer.line("Go on with: attend compare --resume " + path);
    exit_by_signal();
  }
  if (arguments.json) {
    std::cout << read_file(path + "/compare.json");
  } else {
    print_comparison(standard_terminal("auto"), *result, path);
  }
}

void add_corpus_options(Command& command, CompareArguments& arguments) {
  command.add_option("files", arguments.files, "Two aligned files, or one with source, tab, target in each line")
      ->type_name("SOURCE TARGET");
  command.add_option("--test", arguments.test, "Pairs to compare with (default: a part held out of the others)")
      ->expected(1, 2)
      ->type_name("FILES");
  command.add_option("--validation", arguments.validation, "Pairs that choose each model's best step")
      ->expected(1, 2)
      ->type_name("FILES");
  command
      .add_option("--validation-share", arguments.held_out,
                  "Part held out if there are none (default 0.02; without --test 0.05); at most 2,000 pairs")
      ->check(number_between(0, 0.9))
      ->type_name("SHARE");
  command
      .add_option("--tokenizer", arguments.tokenizer,
                  "bpe (default), char, word, wordpiece, sentencepiece, or a file or folder to load")
      ->suggest({"bpe", "char", "word", "wordpiece", "sentencepiece"})
      ->type_name("NAME|FILE");
  command.add_option("--vocabulary", arguments.vocabulary, "Largest number of tokens to learn (default 10000)")
      ->check(whole_number(16, 10000000))
      ->type_name("N");
  command.add_flag("--lowercase", arguments.lowercase, "Make all text lower-case");
  add_lossy(command, arguments.lossy);
}

void add_model_choices(Command& command, CompareArguments& arguments) {
  ComparisonJob& job = arguments.job;
  command
      .add_option("--architectures", arguments.architectures,
                  "Which to compare (default rnn,rnn-attention,transformer)")
      ->delimiter(',')
      ->type_name("NAMES");
  command.add_option("--preset", job.preset, "Size of the models: tiny, small or base (default tiny)");
  command.add_option("--steps", job.steps, "Updates of each model (default 3000)")
      ->check(whole_number(2, 100000000))
      ->type_name("N");
  command.add_option("--batch-tokens", job.batch_tokens, "Tokens of a batch, padding included (default 4096)")
      ->check(whole_number(1, 100000000))
      ->type_name("N");
  command
      .add_option("--set", arguments.settings,
                  "Another setting of the models or of training, [ARCHITECTURE.]NAME=VALUE; see attend train --help")
      ->type_name("SETTING");
  command.add_option("--buckets", job.buckets, "Groups of sentences by length (default 6)")
      ->check(whole_number(1, 1000))
      ->type_name("N");
  add_beam(command, arguments.beam, "1, greedy");
  command.add_option("--seed", job.seed, "Of all randomness (default 1)")
      ->check(whole_number(0, INT64_MAX))
      ->type_name("N");
}

}  // namespace

void add_compare(Command& app) {
  Command* command =
      app.add_subcommand("compare", "Train models with and without attention, and compare them by sentence length");
  const auto arguments = std::make_shared<CompareArguments>();
  add_corpus_options(*command, *arguments);
  command->add_option("-o,--output", arguments->output, "The folder to write")->type_name("DIR");
  command->add_option("--resume", arguments->resume, "Go on with such a folder where it stopped")->type_name("DIR");
  add_model_choices(*command, *arguments);
  command->add_flag("--overwrite", arguments->overwrite, "Replace a comparison that is there");
  add_threads(*command, arguments->threads);
  add_quiet(*command, arguments->quiet);
  add_json(*command, arguments->json, "Print what compare.json holds instead of the table");
  command->footer(kCompareExamples);
  command->callback([arguments] { run_compare(*arguments); });
}

}  // namespace attend::cli
