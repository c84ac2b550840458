#include "cli/commands.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>

#include "attend/base/error.h"
#include "attend/base/threads.h"
#include "attend/hub/hub.h"
#include "attend/io/json.h"
#include "attend/models/registry.h"
#include "attend/models/setting_error.h"
#include "attend/serve/watch.h"
#include "attend/train/job.h"
#include "cli/command_line.h"
#include "cli/page.h"
#include "cli/shared_options.h"
#include "cli/signals.h"
#include "cli/train_print.h"

namespace attend::cli {
namespace {

constexpr const char* kTrainExamples = R"(
Examples:
  attend train transformer train.en train.de -o en-de          two aligned files: a translator
  attend train rnn-attention pairs.tsv --preset small -o m     source, tab, target in each line
  attend train gpt novel.txt --tokenizer char -o novel         plain text: a language model
  attend train encoder reviews.tsv -o reviews                  label, tab, text: a classifier
  attend train encoder corpus.txt --masked-words -o base       masked words; then --from base with labels
  attend train --resume en-de                                  go on after Ctrl-C, bit for bit
  attend train transformer pairs.tsv -o m --watch              with a page that shows it learning
Files may be packed by gzip; - is the standard input. Ctrl-C saves, and says how to go on.)";

struct TrainArguments {
  std::string architecture, output, resume, from, task, preset, tokenizer;
  std::vector<std::string> files, validation;
  int64_t vocabulary = 0, threads = 0;
  double validation_share = 0;
  bool lossy = false, overwrite = false, quiet = false, json = false, by_line = false, masked = false,
       lowercase = false, watch = false;
  std::string watch_text;
  std::map<std::string, std::string> model, training;
};

/// A kind of tokenizer to train, or one to load.
Check known_tokenizer() {
  const auto check = [](std::string& text) -> std::string {
    const std::vector<std::string> kinds{"char", "word", "bpe", "wordpiece", "sentencepiece"};
    std::error_code error;
    if (std::ranges::find(kinds, text) != kinds.end() || std::filesystem::exists(text, error)) return "";
    return "expected char, word, bpe, wordpiece, sentencepiece, or a file or folder that exists, got '" + text + "'";
  };
  return check;
}

const Architecture& architecture_of(const std::string& name) {
  std::string names;
  for (const Architecture& entry : architectures()) {
    if (entry.name == name) return entry;
    names += (names.empty() ? "" : ", ") + entry.name;
  }
  throw UsageError("there is no architecture '" + name + "'; there are " + names);
}

/// Pairs from one file with tabs or from two aligned ones, text or labelled text from any number.
Corpus corpus_of(const std::vector<std::string>& files, ModelKind kind, const TrainArguments& arguments) {
  Corpus corpus{.lossy = arguments.lossy};
  if (kind == ModelKind::translation) {
    if (files.size() > 2) throw UsageError("expected one file of pairs or two aligned files, got more");
    corpus.kind = files.size() == 1 ? CorpusKind::tsv : CorpusKind::pairs;
    corpus.files = {files[0]};
    if (files.size() == 2) corpus.targets = {files[1]};
    return corpus;
  }
  corpus.kind = kind == ModelKind::classification && !arguments.masked ? CorpusKind::labelled : CorpusKind::text;
  corpus.files = files;
  return corpus;
}

/// What a user asks for in vain is a mistake to tell.
void check_usage(const TrainArguments& arguments) {
  const bool resumes = !arguments.resume.empty();
  if (!arguments.watch && !arguments.watch_text.empty()) throw UsageError("--watch-text needs --watch");
  if (!resumes && arguments.output.empty()) {
    throw UsageError("expected -o MODEL, the folder to write, or --resume MODEL");
  }
  const bool new_model = !arguments.architecture.empty() || !arguments.output.empty() || !arguments.from.empty() ||
                         !arguments.preset.empty() || !arguments.tokenizer.empty() || !arguments.validation.empty() ||
                         !arguments.model.empty() || arguments.overwrite || arguments.lowercase ||
                         arguments.vocabulary > 0 || arguments.by_line || arguments.masked || arguments.lossy ||
                         arguments.validation_share > 0;
  if (resumes && new_model) {
    throw UsageError("--resume goes on with the model and the corpus of its folder: only training options fit");
  }
  if (arguments.from.empty() && !arguments.task.empty()) throw UsageError("--task needs --from");
  const bool new_words = !arguments.tokenizer.empty() || arguments.vocabulary > 0 || arguments.lowercase;
  if (!arguments.from.empty() && (!arguments.preset.empty() || new_words)) {
    throw UsageError(
        "--from takes size and vocabulary from its model: drop --preset, --tokenizer, --vocabulary and --lowercase");
  }
}

TrainingJob job_of(const TrainArguments& arguments) {
  const Architecture& architecture = architecture_of(arguments.architecture);
  if (arguments.files.empty()) throw UsageError("expected files to learn from");
  if (arguments.masked && architecture.kind != ModelKind::classification) {
    throw UsageError("--masked-words is for an encoder");
  }
  if (arguments.by_line && architecture.kind == ModelKind::translation) {
    throw UsageError("--by-line is for plain text");
  }
  TrainingJob job{
      .architecture = architecture.name, .model = arguments.model, .from = arguments.from, .task = arguments.task};
  if (!arguments.preset.empty()) job.preset = arguments.preset;
  const bool goes_on = !arguments.from.empty() && is_hub_folder(arguments.from);
  job.training =
      with_training(goes_on ? fine_tuning(architecture.name) : default_training(architecture.name), arguments.training);
  job.data.corpus = corpus_of(arguments.files, architecture.kind, arguments);
  if (!arguments.validation.empty()) {
    job.data.validation = corpus_of(arguments.validation, architecture.kind, arguments);
  }
  job.data.validation_share = arguments.validation_share;
  if (!arguments.tokenizer.empty()) job.data.tokenizer = arguments.tokenizer;
  if (arguments.vocabulary > 0) job.data.vocabulary = arguments.vocabulary;
  job.data.by_line = arguments.by_line;
  job.data.lowercase = arguments.lowercase;
  return job;
}

void print_json(const TrainingOutcome& outcome, const std::string& path) {
  const char* ends[] = {"finished", "stopped early", "interrupted"};
  Json json{{"model", path},
            {"end", ends[static_cast<int>(outcome.end)]},
            {"step", outcome.step},
            {"seconds", outcome.seconds},
            {"tokens_per_second", outcome.tokens_per_second},
            {"best_step", outcome.best_step}};
  if (outcome.end != TrainingOutcome::End::interrupted) {
    json["validation_loss"] = outcome.result.loss;
    json["perplexity"] = std::exp(outcome.result.loss);
    if (outcome.result.accuracy) json["accuracy"] = *outcome.result.accuracy;
    if (outcome.result.bleu) json["bleu"] = *outcome.result.bleu;
    if (outcome.result.chrf) json["chrf"] = *outcome.result.chrf;
  }
  std::cout << json.dump() << '\n';
}

std::string option_name(std::string setting) {
  std::ranges::replace(setting, '_', '-');
  return "--" + setting;
}

/// The message with its settings, in single quotes, as the options they were given by.
std::string with_option_names(std::string message) {
  std::vector<SettingInfo> known = training_settings();
  for (const Architecture& architecture : architectures()) {
    std::ranges::copy(settings_of(architecture.name), std::back_inserter(known));
  }
  for (const SettingInfo& info : known) {
    const std::string quoted = "'" + info.name + "'";
    for (size_t at = message.find(quoted); at != std::string::npos; at = message.find(quoted)) {
      message.replace(at, quoted.size(), option_name(info.name));
    }
  }
  return message;
}

TrainingFolder prepare(const TrainArguments& arguments, TrainingPrinter& printer) try {
  if (!arguments.resume.empty()) return TrainingFolder::open(arguments.resume, arguments.training);
  try {
    return TrainingFolder::create(job_of(arguments), arguments.output, arguments.overwrite,
                                  stoppable(printer.progress()));
  } catch (const StopRequested&) {
    printer.line("Stopped before training began; nothing was written.");
    exit_by_signal();
  }
} catch (const SettingError& error) {
  throw UsageError(with_option_names(error.what()));
}

/// The page, where it was asked for; it ends with the training.
std::unique_ptr<TrainingWatch> start_watching(const TrainArguments& arguments, const TrainingFolder& folder,
                                              const std::string& path) {
  if (!arguments.watch) return nullptr;
  auto watch = std::make_unique<TrainingWatch>(
      folder, WatchOptions{.version = ATTEND_VERSION,
                           .page = packed_page(),
                           .name = std::filesystem::weakly_canonical(path).filename().string(),
                           .text = arguments.watch_text});
  std::cerr << "Watch it at " << watch->address() << '\n';
  return watch;
}

void run_train(const TrainArguments& arguments) {
  check_usage(arguments);
  use_threads(arguments.threads);
  survive_file_limits();
  if (!arguments.quiet) acknowledge_signals();
  TrainingPrinter printer(std::cerr, arguments.quiet);
  TrainingFolder folder = prepare(arguments, printer);
  const std::string path = arguments.resume.empty() ? arguments.output : arguments.resume;
  printer.start(folder);
  const auto watch = start_watching(arguments, folder, path);
  const TrainingOutcome outcome =
      folder.run(watch ? watch->observer(printer.observer()) : printer.observer(), &stop_after_saving());
  if (watch) watch->finish();
  printer.finish(folder, outcome, path);
  if (arguments.json) print_json(outcome, path);
  if (outcome.end == TrainingOutcome::End::interrupted) exit_by_signal();
}

using Configs = std::vector<std::pair<std::string, Json>>;  // of each architecture

/// "40; rnn, rnn-attention 30; gpt 10": the value of the first architecture that has one, then those that differ.
std::string defaults_of(const std::string& setting, const Configs& configs) {
  std::vector<std::pair<std::string, std::string>> values;  // value, who has it
  for (const auto& [architecture, config] : configs) {
    if (!config.contains(setting)) continue;
    const Json& found = config[setting];
    const std::string value = found.is_string()    ? found.get<std::string>()
                              : found.is_boolean() ? (found.get<bool>() ? "yes" : "no")
                                                   : found.dump();
    const auto known = std::ranges::find(values, value, &std::pair<std::string, std::string>::first);
    if (known == values.end()) {
      values.emplace_back(value, architecture);
    } else {
      known->second.append(", ").append(architecture);
    }
  }
  if (values.empty()) return "";
  std::string text = values[0].first;
  for (size_t i = 1; i < values.size(); ++i)
    text.append("; ").append(values[i].second).append(" ").append(values[i].first);
  return text;
}

/// Architectures share names: what one means by them is said once, and where another means something else.
void merge_settings(std::vector<SettingInfo>& all, const Architecture& architecture) {
  for (const SettingInfo& info : settings_of(architecture.name)) {
    if (info.name == "vocab_size" || info.name == "labels" || info.name == "scores") continue;  // what the data says
    const auto known = std::ranges::find(all, info.name, &SettingInfo::name);
    if (known == all.end()) {
      all.push_back(info);
    } else if (known->help.find(info.help) == std::string::npos) {
      known->help += "; " + architecture.name + ": " + info.help;
    }
  }
}

/// An option for each setting. The names of version 0.1 work too, but help does not list them.
void add_settings(Command& command, const std::vector<SettingInfo>& settings,
                  std::map<std::string, std::string>& values, const std::string& group, const Configs& defaults) {
  for (const SettingInfo& info : settings) {
    const std::string option = option_name(info.name);
    std::string help = info.help;
    for (size_t i = 0; i < info.choices.size(); ++i) help += (i == 0 ? ": " : ", ") + info.choices[i];
    if (const std::string initial = defaults_of(info.name, defaults); !initial.empty()) {
      help.append(" [").append(initial).append("]");
    }
    const std::string former(former_name(info.name));
    if (!former.empty() && !command.has_option(option_name(former))) {
      command
          .add_option(
              option_name(former), [&values, former](const std::string& text) { values[former] = text; }, help)
          ->take_last()
          ->group("");
    }
    command
        .add_option(
            option, [&values, name = info.name](const std::string& text) { values[name] = text; }, help)
        ->take_last()
        ->suggest(info.kind == "yes or no" ? std::vector<std::string>{"yes", "no"} : info.choices)
        ->group(group)
        ->type_name(info.kind == "yes or no" ? "yes|no"
                    : info.kind == "choice"  ? "NAME"
                                             : "N");
  }
}

}  // namespace

void add_train(Command& app) {
  Command* command = app.add_subcommand("train", "Train a model on your own text");
  const auto arguments = std::make_shared<TrainArguments>();
  command->add_option("architecture", arguments->architecture, "rnn, rnn-attention, transformer, gpt or encoder")
      ->suggest({"rnn", "rnn-attention", "transformer", "gpt", "encoder"});
  command->add_option("files", arguments->files, "What to learn from; see the examples below")->type_name("FILES");
  command->add_option("-o,--output", arguments->output, "The model folder to write")->type_name("MODEL");
  command->add_option("--resume", arguments->resume, "Go on with a model folder where it stopped")->type_name("MODEL");
  command->add_option("--from", arguments->from, "Start from the weights and the vocabulary of a trained model")
      ->type_name("MODEL");
  command->add_option("--task", arguments->task, "Which task of that model to go on with (T5: translation_en_to_de)")
      ->type_name("NAME");
  command->add_option("--preset", arguments->preset, "Size of the model: tiny, small or base (default tiny)")
      ->check(one_of({"tiny", "small", "base"}));
  command->add_option("--validation", arguments->validation, "Files to validate with, as the training files")
      ->type_name("FILES");
  command
      ->add_option("--validation-share", arguments->validation_share,
                   "Part of the corpus held out if there are none (0.02; of plain text 0.1)")
      ->check(number_between(0, 0.99));
  command
      ->add_option("--tokenizer", arguments->tokenizer,
                   "bpe (default), char, word, wordpiece, sentencepiece, or a file or folder to load")
      ->check(known_tokenizer())
      ->suggest({"bpe", "char", "word", "wordpiece", "sentencepiece"})
      ->type_name("NAME|FILE");
  command->add_option("--vocabulary", arguments->vocabulary, "Largest number of tokens to learn (default 10000)")
      ->check(whole_number(16, 10000000));
  command->add_flag("--lowercase", arguments->lowercase, "Make all text lower-case");
  add_by_line(*command, arguments->by_line);
  command->add_flag("--masked-words", arguments->masked, "Encoder: learn from plain text by guessing held-out words");
  add_lossy(*command, arguments->lossy);
  command->add_flag("--overwrite", arguments->overwrite, "Replace a model folder that is there");
  add_threads(*command, arguments->threads);
  command->add_flag("--watch", arguments->watch, "Show the training in the browser, at the address it prints");
  command
      ->add_option("--watch-text", arguments->watch_text,
                   "The sentence to follow there (default: one to validate with)")
      ->type_name("TEXT");
  add_quiet(*command, arguments->quiet);
  add_json(*command, arguments->json, "Print the outcome as a JSON object");
  std::vector<SettingInfo> settings;
  Configs models, trainings;
  for (const Architecture& architecture : architectures()) {
    merge_settings(settings, architecture);
    models.emplace_back(architecture.name, Json::parse(with_settings(preset_config(architecture.name, "tiny"), {})));
    trainings.emplace_back(architecture.name, Json::parse(training_text(default_training(architecture.name))));
  }
  add_settings(*command, settings, arguments->model, "Model [value in preset tiny]", models);
  add_settings(*command, training_settings(), arguments->training, "Training [default]", trainings);
  command->footer(kTrainExamples);
  command->callback([arguments] { run_train(*arguments); });
}

}  // namespace attend::cli
