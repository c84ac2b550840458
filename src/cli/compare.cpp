#include "cli/commands.h"

#include <iostream>

#include "attend/base/error.h"
#include "attend/base/threads.h"
#include "attend/io/files.h"
#include "attend/models/setting_error.h"
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
  attend compare --resume comparison                           continue after Ctrl-C

All models are trained with the same vocabulary, on the same pairs in the same order, for the same number of steps; the
learning rate rises, then falls to 0 at the last step. Each model translates the test sentences with its weights of the
lowest validation loss. The sentences are sorted by length and divided into buckets of about equal size. The output
folder receives a model folder and the translations of each model, compare.svg (quality by length) and compare.json.
Files may be gzip-compressed.)";

struct CompareArguments {
  Files files, test, validation, architectures, settings;
  std::string output, resume, tokenizer;
  ComparisonJob job;
  int64_t vocabulary = 0;
  ComputeOptions compute;
  std::optional<int64_t> beam;
  double held_out = 0;
  bool lowercase = false, lossy = false, overwrite = false, quiet = false, json = false;
};

Corpus pairs_of(const Files& files, bool lossy) {
  if (files.empty() || files.size() > 2) {
    throw UsageError("expected one file of pairs or two aligned files, got " + std::to_string(files.size()) + " files");
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
    throw UsageError("--resume uses the files and settings of its folder: give no files and no -o with it");
  }
  if (!resumes && arguments.output.empty()) {
    throw UsageError("expected -o FOLDER (a new folder) or --resume FOLDER");
  }
}

void run_compare(const CompareArguments& arguments) {
  check_usage(arguments);
  const Device device = use(arguments.compute);
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
    result = folder.run(observer_of(printer), &stop_after_saving(), device);
  } catch (const SettingError& error) {
    throw UsageError(error.what());
  } catch (const StopRequested&) {
    printer.line("Stopped before training began; nothing was written.");
    exit_by_signal();
  }
  if (!result) {
    printer.line("Stopped; everything is saved.");
    printer.line("Continue with: attend compare --resume " + path);
    exit_by_signal();
  }
  if (arguments.json) {
    std::cout << read_file(path + "/compare.json");
  } else {
    print_comparison(standard_terminal("auto"), *result, path);
  }
}

void add_corpus_options(Command& command, CompareArguments& arguments) {
  command
      .add_option("files", arguments.files,
                  "Training pairs: two aligned files, or one file of lines with source, tab, target")
      ->type_name("FILE");
  command.add_option("--test", arguments.test, "Test pairs (default: the validation pairs)")
      ->expected(1, 2)
      ->type_name("FILE");
  command
      .add_option("--validation", arguments.validation,
                  "Validation pairs, which select each model's best step (default: see --validation-share)")
      ->expected(1, 2)
      ->type_name("FILE");
  command
      .add_option("--validation-share", arguments.held_out,
                  "Share of the pairs held out if --validation is not given, at most 2,000 pairs (default: 0.02; "
                  "without --test: 0.05)")
      ->check(number_between(0, 0.9))
      ->type_name("N");
  add_tokenizer(command, arguments.tokenizer);
  add_vocabulary(command, arguments.vocabulary);
  add_lowercase(command, arguments.lowercase);
  add_lossy(command, arguments.lossy);
}

void add_model_choices(Command& command, CompareArguments& arguments) {
  ComparisonJob& job = arguments.job;
  command
      .add_option("--architectures", arguments.architectures,
                  "Architectures to compare (default: rnn,rnn-attention,transformer)")
      ->delimiter(',')
      ->type_name("NAME");
  add_preset(command, job.preset);
  command.add_option("--steps", job.steps, "Training steps of each model (default: 3000)")
      ->check(whole_number(2, 100000000))
      ->type_name("N");
  command.add_option("--batch-tokens", job.batch_tokens, "Batch size in tokens, padding included (default: 4096)")
      ->check(whole_number(1, 100000000))
      ->type_name("N");
  command
      .add_option("--set", arguments.settings,
                  "Any other setting of attend train, for all architectures or one: [ARCHITECTURE.]NAME=VALUE")
      ->type_name("NAME=VALUE");
  command.add_option("--buckets", job.buckets, "Number of length buckets (default: 6)")
      ->check(whole_number(1, 1000))
      ->type_name("N");
  add_beam(command, arguments.beam, "1, greedy");
  add_training_seed(command, job.seed);
}

}  // namespace

void add_compare(Command& app) {
  Command* command =
      app.add_subcommand("compare", "Train models with and without attention, and compare them by sentence length");
  const auto arguments = std::make_shared<CompareArguments>();
  add_corpus_options(*command, *arguments);
  command->add_option("-o,--output", arguments->output, "Folder to write")->type_name("FOLDER");
  command->add_option("--resume", arguments->resume, "Folder of a comparison to continue")->type_name("FOLDER");
  add_model_choices(*command, *arguments);
  command->add_flag("--overwrite", arguments->overwrite, "Replace an existing comparison");
  add_compute_options(*command, arguments->compute);
  add_quiet(*command, arguments->quiet);
  add_json(*command, arguments->json, "Print the contents of compare.json instead of the table");
  command->footer(kCompareExamples);
  command->callback([arguments] { run_compare(*arguments); });
}

}  // namespace attend::cli
