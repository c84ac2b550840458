#include "cli/commands.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>

#include "attend/backend/devices.h"
#include "attend/base/error.h"
#include "attend/base/threads.h"
#include "attend/hub/hub.h"
#include "attend/io/files.h"
#include "attend/io/json.h"
#include "attend/models/registry.h"
#include "attend/models/setting_error.h"
#include "attend/serve/watch.h"
#include "attend/train/job.h"
#include "cli/command_line.h"
#include "cli/page.h"
#include "cli/processes.h"
#include "cli/shared_options.h"
#include "cli/signals.h"
#include "cli/train_print.h"
#include "distributed/group.h"
#include "train/memory_estimate.h"

namespace attend::cli {
namespace {

constexpr const char* kTrainExamples = R"(
Examples:
  attend train transformer train.en train.de -o en-de          a translation model, from two aligned files
  attend train rnn-attention pairs.tsv --preset small -o m     the same, from lines of source, tab, target
  attend train gpt novel.txt --tokenizer char -o novel         a language model, from plain text
  attend train encoder reviews.tsv -o reviews                  a classifier, from lines of label, tab, text
  attend train encoder corpus.txt --masked-words -o base       masked-word pretraining; continue with --from base
  attend train --resume en-de                                  continue after Ctrl-C, with the same result
  attend train transformer pairs.tsv -o m --watch              show the training in the browser
  mpirun -n 8 attend train gpt novel.txt -o novel              train with eight processes, on one or more machines
  mpirun -n 4 attend train gpt novel.txt -o novel --context 65536 --context-parallel 4   divide long sequences

Files may be gzip-compressed; - is standard input. Ctrl-C saves a checkpoint and prints the command to continue. P
processes with --accumulate N give the same bits as one process with --accumulate N · P.)";

struct TrainArguments {
  std::string architecture, output, resume, from, task, preset, tokenizer;
  std::vector<std::string> files, validation;
  int64_t vocabulary = 0;
  ComputeOptions compute;
  double validation_share = 0;
  bool lossy = false, overwrite = false, quiet = false, json = false, by_line = false, masked = false,
       lowercase = false, watch = false;
  std::string watch_text;
  std::map<std::string, std::string> model, training;
};

/// Accepts the kinds of tokenizers, and existing files and folders.
Check known_tokenizer() {
  const auto check = [](std::string& text) -> std::string {
    const std::vector<std::string> kinds{"char", "word", "bpe", "wordpiece", "sentencepiece"};
    std::error_code error;
    if (std::ranges::find(kinds, text) != kinds.end() || std::filesystem::exists(text, error)) return "";
    return "expected char, word, bpe, wordpiece, sentencepiece, or an existing file or folder, got '" + text + "'";
  };
  return check;
}

const Architecture& architecture_of(const std::string& name) {
  std::string names;
  for (const Architecture& entry : architectures()) {
    if (entry.name == name) return entry;
    names += (names.empty() ? "" : ", ") + entry.name;
  }
  throw UsageError("unknown architecture '" + name + "'; expected one of " + names);
}

/// Translation pairs come from one file with tabs or from two aligned files; text and labelled text from any number.
Corpus corpus_of(const std::vector<std::string>& files, ModelKind kind, const TrainArguments& arguments) {
  Corpus corpus{.lossy = arguments.lossy};
  if (kind == ModelKind::translation) {
    if (files.size() > 2)
      throw UsageError("expected one file of pairs or two aligned files, got " + std::to_string(files.size()) +
                       " files");
    corpus.kind = files.size() == 1 ? CorpusKind::tsv : CorpusKind::pairs;
    corpus.files = {files[0]};
    if (files.size() == 2) corpus.targets = {files[1]};
    return corpus;
  }
  corpus.kind = kind == ModelKind::classification && !arguments.masked ? CorpusKind::labelled : CorpusKind::text;
  corpus.files = files;
  return corpus;
}

/// Rejects options that would have no effect.
void check_usage(const TrainArguments& arguments) {
  const bool resumes = !arguments.resume.empty();
  if (!arguments.watch && !arguments.watch_text.empty()) throw UsageError("--watch-text requires --watch");
  if (!resumes && arguments.output.empty()) {
    throw UsageError("expected -o MODEL (a new model folder) or --resume MODEL");
  }
  const bool new_model = !arguments.architecture.empty() || !arguments.output.empty() || !arguments.from.empty() ||
                         !arguments.preset.empty() || !arguments.tokenizer.empty() || !arguments.validation.empty() ||
                         !arguments.model.empty() || arguments.overwrite || arguments.lowercase ||
                         arguments.vocabulary > 0 || arguments.by_line || arguments.masked || arguments.lossy ||
                         arguments.validation_share > 0;
  if (resumes && new_model) {
    throw UsageError("--resume uses the model and the corpus of its folder: give only training options with it");
  }
  for (const char* name : {"reduce", "wire", "shard"}) {
    if (distributed::world().size() == 1 && arguments.training.contains(name)) {
      throw UsageError(std::string("--") + name + " applies only to several processes: start them with mpirun or srun");
    }
  }
  if (arguments.from.empty() && !arguments.task.empty()) throw UsageError("--task requires --from");
  const bool new_words = !arguments.tokenizer.empty() || arguments.vocabulary > 0 || arguments.lowercase;
  if (!arguments.from.empty() && (!arguments.preset.empty() || new_words)) {
    throw UsageError(
        "--from takes size and vocabulary from its model: remove --preset, --tokenizer, --vocabulary and --lowercase");
  }
}

/// The number of processes, or groups of processes that divide sequences, among which the batches of an update are
/// divided. --accumulate counts the batches of one of them.
int64_t batch_groups(const TrainingOptions& options) {
  return std::max<int64_t>(1, distributed::world().size() / std::max<int64_t>(1, options.context_parallel));
}

TrainingJob job_of(const TrainArguments& arguments) {
  const Architecture& architecture = architecture_of(arguments.architecture);
  if (arguments.files.empty()) throw UsageError("expected training files");
  if (arguments.masked && architecture.kind != ModelKind::classification) {
    throw UsageError("--masked-words applies only to the architecture encoder");
  }
  if (arguments.by_line && architecture.kind == ModelKind::translation) {
    throw UsageError("--by-line applies only to plain text, not to translation pairs");
  }
  TrainingJob job{
      .architecture = architecture.name, .model = arguments.model, .from = arguments.from, .task = arguments.task};
  if (!arguments.preset.empty()) job.preset = arguments.preset;
  const bool goes_on = !arguments.from.empty() && is_hub_folder(arguments.from);
  job.training =
      with_training(goes_on ? fine_tuning(architecture.name) : default_training(architecture.name), arguments.training);
  job.training.accumulate *= batch_groups(job.training);
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
  if (distributed::world().size() > 1) {
    json["processes"] = distributed::world().size();
    json["exchange_seconds"] = outcome.exchange_seconds;
    json["exposed_seconds"] = outcome.exposed_seconds;
    json["waited_seconds"] = outcome.waited_seconds;
    if (outcome.ring_seconds > 0) {
      json["ring_seconds"] = outcome.ring_seconds;
      json["ring_exposed_seconds"] = outcome.ring_exposed_seconds;
    }
  }
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

/// Replaces the names of settings, in single quotes, by the options that set them.
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

/// The options of the training to resume, or defaults if they cannot be read: opening the folder then reports why.
TrainingOptions saved_options(const std::string& folder) try {
  return training_from(read_file(folder + "/training.json", 1 << 20));
} catch (const Error&) {
  return {};
}

/// The training options to change when resuming. --accumulate counts the batches of one process, the options all.
std::map<std::string, std::string> changed_options(const TrainArguments& arguments) {
  std::map<std::string, std::string> settings = arguments.training;
  if (settings.contains("accumulate")) {
    const TrainingOptions changed = with_training(saved_options(arguments.resume), settings);
    settings["accumulate"] = std::to_string(changed.accumulate * batch_groups(changed));
  }
  return settings;
}

TrainingFolder prepare(const TrainArguments& arguments, Device device, TrainingPrinter& printer) try {
  require_precision(with_training({}, arguments.training).precision, device);
  if (!arguments.resume.empty()) return TrainingFolder::open(arguments.resume, changed_options(arguments));
  try {
    return TrainingFolder::create(job_of(arguments), arguments.output, arguments.overwrite,
                                  stoppable(printer.progress()));
  } catch (const StopRequested&) {
    printer.line("Stopped before training began; nothing was written.");
    if (distributed::world().size() > 1) distributed::world().abort(1, "stopped before training began");
    exit_by_signal();
  }
} catch (const SettingError& error) {
  throw UsageError(with_option_names(error.what()));
}

/// The first process creates or opens the folder; then the others open it.
TrainingFolder prepare_together(const TrainArguments& arguments, Device device, TrainingPrinter& printer) {
  if (distributed::world().size() == 1) return prepare(arguments, device, printer);
  const std::string& path = arguments.resume.empty() ? arguments.output : arguments.resume;
  if (is_first_process()) {
    TrainingFolder folder = prepare(arguments, device, printer);
    folder.share();
    return folder;
  }
  return TrainingFolder::join(path);
}

/// Serves the page if --watch was given; it closes when training ends.
std::unique_ptr<TrainingWatch> start_watching(const TrainArguments& arguments, const TrainingFolder& folder,
                                              const std::string& path) {
  if (!arguments.watch || !is_first_process()) return nullptr;
  auto watch = std::make_unique<TrainingWatch>(
      folder, WatchOptions{.version = ATTEND_VERSION,
                           .page = packed_page(),
                           .name = std::filesystem::weakly_canonical(path).filename().string(),
                           .text = arguments.watch_text});
  std::cerr << "Watch the training at " << watch->address() << '\n';
  return watch;
}

/// A device that fails, such as one without free memory, costs only the steps since the last checkpoint.
template <class Work>
auto keeping_checkpoint(const TrainingFolder& folder, const std::string& path, Work&& work) try {
  return work();
} catch (const DeviceError& error) {
  throw_error<DeviceError>(error.what(), "; the checkpoint of step ", folder.saved_step(),
                           " is kept: attend train --resume ", shell_word(path));
}

/// Prints the estimated memory, and stops a training that cannot fit before its first step.
void check_memory(const TrainingFolder& folder, Device device, TrainingPrinter& printer) {
  const distributed::Group& group = distributed::world();
  const BatchShape batch = largest_batch(folder.model(), folder.data(), folder.training());
  const MemoryEstimate estimate = estimate_memory(folder.model(), folder.training(), batch, device, group.size());
  // The processes of a host share its memory; each has a GPU of its own.
  const int sharing = device == kCpu ? group.members()[static_cast<size_t>(group.rank())].local_size : 1;
  const size_t free_bytes = device_info(device).free_memory / static_cast<size_t>(sharing);
  require_memory(estimate, free_bytes, folder.model(), folder.training(), device);
  printer.line((group.size() > 1 ? "memory per process: " : "memory: ") + memory_text(estimate, free_bytes, device));
}

void print_processes(const std::string& text, const TrainingFolder& folder, TrainingPrinter& printer) {
  const TrainingOptions& options = folder.training();
  printer.line(text + "; " + std::to_string(options.accumulate) +
               (options.accumulate == 1 ? " batch per update" : " batches per update"));
  if (const int64_t divided = options.context_parallel; divided > 1) {
    const int64_t context = folder.model().context();
    printer.line("context: " + grouped(static_cast<double>(context)) + " tokens over " + std::to_string(divided) +
                 " processes, " + grouped(static_cast<double>((context + divided - 1) / divided)) +
                 " each; the bits depend on the number of processes");
  }
  if (options.reduce == GradientOrder::fast) {
    printer.line("--reduce fast: MPI chooses the order of sums, so the bits depend on the number of processes");
  }
  if (options.wire == WireType::bf16) {
    printer.line("--wire bf16: gradients are rounded on the way, so the bits depend on the number of processes");
  }
}

void run_train(const TrainArguments& arguments) {
  check_usage(arguments);
  const Device device = use(arguments.compute);
  survive_file_limits();
  const bool is_quiet = arguments.quiet || !is_first_process();
  if (!is_quiet) acknowledge_signals();
  TrainingPrinter printer(std::cerr, is_quiet);
  TrainingFolder folder = prepare_together(arguments, device, printer);
  const std::string path = arguments.resume.empty() ? arguments.output : arguments.resume;
  printer.start(folder);
  if (const std::string text = processes_text(); !text.empty()) print_processes(text, folder, printer);
  if (folder.training().context_parallel > 1 && device != kCpu) {
    throw UsageError("--context-parallel needs the CPU: add --device cpu");
  }
  keeping_checkpoint(folder, path, [&] {
    check_memory(folder, device, printer);
    folder.to(device);
  });
  const auto watch = start_watching(arguments, folder, path);
  const TrainingOutcome outcome = keeping_checkpoint(folder, path, [&] {
    return folder.run(watch ? watch->observer(printer.observer()) : printer.observer(), &stop_after_saving());
  });
  if (watch) watch->finish();
  printer.finish(folder, outcome, path);
  if (arguments.json && is_first_process()) print_json(outcome, path);
  if (outcome.end == TrainingOutcome::End::interrupted) exit_by_signal();
}

using Configs = std::vector<std::pair<std::string, Json>>;  // by architecture

/// "40; rnn, rnn-attention: 30; gpt: 10": the default of the first architecture that has one, then those that differ.
std::string defaults_of(const std::string& setting, const Configs& configs) {
  std::vector<std::pair<std::string, std::string>> values;  // value, architectures
  for (const auto& [architecture, config] : configs) {
    if (!config.contains(setting)) continue;
    const Json& found = config[setting];
    std::string value = found.is_string()    ? found.get<std::string>()
                        : found.is_boolean() ? (found.get<bool>() ? "yes" : "no")
                                             : found.dump();
    if (found.is_number() && value.ends_with(".0")) value.resize(value.size() - 2);
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
    text.append("; ").append(values[i].second).append(": ").append(values[i].first);
  return text;
}

std::string capitalized(std::string text) {
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

/// All settings that an option can set, each once. If a setting has different meanings in different architectures, its
/// help is "rnn: …; transformer, gpt: …".
std::vector<SettingInfo> merged_settings() {
  using Meanings = std::vector<std::pair<std::string, std::string>>;  // help, architectures
  std::vector<SettingInfo> all;
  std::map<std::string, Meanings> meanings;
  for (const Architecture& architecture : architectures()) {
    for (const SettingInfo& info : settings_of(architecture.name)) {
      if (info.name == "vocab_size" || info.name == "labels" || info.name == "scores") continue;  // set by the data
      if (!meanings.contains(info.name)) all.push_back(info);
      Meanings& list = meanings[info.name];
      const auto known = std::ranges::find_if(
          list, [&](const auto& meaning) { return meaning.first.find(info.help) != std::string::npos; });
      if (known == list.end()) {
        list.emplace_back(info.help, architecture.name);
      } else {
        known->second.append(", ").append(architecture.name);
      }
    }
  }
  for (SettingInfo& info : all) {
    const Meanings& list = meanings[info.name];
    info.help = list.size() == 1 ? capitalized(list[0].first) : "";
    for (const auto& [help, names] : list) {
      if (list.size() == 1) break;
      info.help.append(info.help.empty() ? "" : "; ").append(names).append(": ").append(help);
    }
  }
  return all;
}

std::vector<SettingInfo> capitalized(std::vector<SettingInfo> settings) {
  for (SettingInfo& info : settings) info.help = capitalized(info.help);
  return settings;
}

/// The help of a setting with its choices and its default.
std::string help_of(const SettingInfo& info, const Configs& defaults) {
  std::string help = info.help;
  for (size_t i = 0; i < info.choices.size(); ++i) help += (i == 0 ? ": " : ", ") + info.choices[i];
  const std::string initial = defaults_of(info.name, defaults);
  if (initial.empty()) return help;
  // "… (0: all)" becomes "… (default: 4; 0: all)".
  const size_t zero = help.ends_with(')') ? help.rfind("(0: ") : std::string::npos;
  if (zero != std::string::npos) return help.insert(zero + 1, "default: " + initial + "; ");
  return help + " (default: " + initial + ")";
}

const char* type_name_of(const SettingInfo& info) {
  if (info.kind == "yes or no") return "yes|no";
  if (info.kind == "list") return "LIST";
  return info.kind == "choice" || info.kind == "text" ? "NAME" : "N";
}

/// Adds an option for each setting. The names of version 0.1 still work, but help does not list them.
void add_settings(Command& command, const std::vector<SettingInfo>& settings,
                  std::map<std::string, std::string>& values, const std::string& group, const Configs& defaults) {
  for (const SettingInfo& info : settings) {
    const std::string option = option_name(info.name);
    const std::string help = help_of(info, defaults);
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
        ->type_name(type_name_of(info));
  }
}

/// Adds an option for each training setting, and the flags --NAME and --no-NAME for those that are on or off.
void add_training_settings(Command& command, std::map<std::string, std::string>& values, const Configs& defaults) {
  std::vector<SettingInfo> settings = capitalized(training_settings());
  for (const SettingInfo& info : settings) {
    if (info.kind != "yes or no") continue;
    const auto set = [&values, name = info.name](const char* value) { return [=, &values] { values[name] = value; }; };
    const std::string option = option_name(info.name);
    command.add_flag(option, set("yes"), info.help)->group("Training");
    command.add_flag("--no-" + option.substr(2), set("no"), "Turn " + option + " off when resuming")->group("Training");
  }
  std::erase_if(settings, [](const SettingInfo& info) { return info.kind == "yes or no"; });
  add_settings(command, settings, values, "Training", defaults);
}

}  // namespace

void add_train(Command& app) {
  Command* command = app.add_subcommand("train", "Train a model on your own text");
  const auto arguments = std::make_shared<TrainArguments>();
  command->add_option("architecture", arguments->architecture, "rnn, rnn-attention, transformer, gpt or encoder")
      ->suggest({"rnn", "rnn-attention", "transformer", "gpt", "encoder"})
      ->type_name("NAME");
  command->add_option("files", arguments->files, "Training files; see the examples below")->type_name("FILE");
  command->add_option("-o,--output", arguments->output, "New model folder")->type_name("MODEL");
  command->add_option("--resume", arguments->resume, "Model folder in which to continue training")->type_name("MODEL");
  command->add_option("--from", arguments->from, "Trained model to start from: its weights and its vocabulary")
      ->type_name("MODEL");
  command->add_option("--task", arguments->task, "T5: task of that model to train (translation_en_to_de)")
      ->type_name("NAME");
  add_preset(*command, arguments->preset)->check(one_of({"tiny", "small", "base"}));
  command->add_option("--validation", arguments->validation, "Validation files, in the format of the training files")
      ->type_name("FILE");
  command
      ->add_option("--validation-share", arguments->validation_share,
                   "Share of the corpus held out if --validation is not given (default: 0.02; plain text: 0.1)")
      ->check(number_between(0, 0.99))
      ->type_name("N");
  add_tokenizer(*command, arguments->tokenizer)->check(known_tokenizer());
  add_vocabulary(*command, arguments->vocabulary);
  add_lowercase(*command, arguments->lowercase);
  add_by_line(*command, arguments->by_line);
  command->add_flag("--masked-words", arguments->masked, "Encoder: train on plain text to predict masked words");
  add_lossy(*command, arguments->lossy);
  command->add_flag("--overwrite", arguments->overwrite, "Replace an existing model folder");
  add_compute_options(*command, arguments->compute);
  command->add_flag("--watch", arguments->watch, "Show the training in the browser, at the printed address");
  command
      ->add_option("--watch-text", arguments->watch_text,
                   "Text that the page of --watch follows (default: a validation example)")
      ->type_name("TEXT");
  add_quiet(*command, arguments->quiet);
  add_json(*command, arguments->json, "Print the result as a JSON object");
  Configs models, trainings;
  for (const Architecture& architecture : architectures()) {
    models.emplace_back(architecture.name, Json::parse(with_settings(preset_config(architecture.name, "tiny"), {})));
    trainings.emplace_back(architecture.name, Json::parse(training_text(default_training(architecture.name))));
  }
  add_settings(*command, merged_settings(), arguments->model, "Model (defaults of --preset tiny)", models);
  add_training_settings(*command, arguments->training, trainings);
  command->footer(kTrainExamples);
  command->callback([arguments] { run_train(*arguments); });
}

}  // namespace attend::cli
