#include "cli/commands.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <sstream>

#include "attend/base/error.h"
#include "attend/base/threads.h"
#include "attend/data/dates.h"
#include "attend/generate/translate.h"
#include "attend/inspect/document.h"
#include "attend/io/files.h"
#include "attend/io/json.h"
#include "attend/models/registry.h"
#include "attend/ops/reduce.h"
#include "attend/serve/training_feed.h"
#include "attend/tensor/creation.h"
#include "attend/text/segment.h"
#include "attend/train/job.h"
#include "cli/command_line.h"
#include "cli/page.h"
#include "cli/shared_options.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/train_print.h"
#include "serve/page.h"

namespace attend::cli {
namespace {

constexpr int64_t kTrainingPairs = 20000, kUnseen = 1000, kShown = 8;
constexpr const char *kMark = "/demo.json", *kMarkText = "{\"made_by\": \"attend demo\"}\n";

struct DemoArguments {
  std::string output = "date-model";
  int64_t seed = 1, steps = 0;
  ComputeOptions compute;
  bool json = false;
};

/// A character-level model of about the smallest size that gets every date format right, found by trial.
TrainingJob date_job(const DemoArguments& arguments, const std::string& pairs) {
  TrainingJob job{.architecture = "transformer",
                  .preset = "tiny",
                  .model = {{"encoder_layers", "2"},
                            {"decoder_layers", "2"},
                            {"dim", "64"},
                            {"ffn_dim", "256"},
                            {"norm_first", "yes"},
                            {"dropout", "0"},
                            {"context", "64"}}};
  job.data.corpus = {.kind = CorpusKind::tsv, .files = {pairs}};
  job.data.tokenizer = "char";
  job.training = default_training("transformer");
  job.training.steps = arguments.steps > 0 ? arguments.steps : 2600;
  job.training.batch_tokens = 1024;
  job.training.schedule = ScheduleKind::cosine;
  job.training.lr = 3e-3;
  job.training.lr_end = 1e-5;
  job.training.warmup = 150;
  job.training.label_smoothing = 0;
  job.training.validate_every = 650;
  job.training.seed = arguments.seed;
  return job;
}

/// The training data: lines of source, tab, target.
std::string date_lines(uint64_t seed) {
  std::string text;
  for (int64_t i = 0; i < kTrainingPairs; ++i) {
    const DatePair pair = date_pair(seed, static_cast<uint64_t>(i));
    text += pair.text + '\t' + pair.iso + '\n';
  }
  return text;
}

/// A temporary file, removed by the destructor.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& content)
      : folder_((std::filesystem::temp_directory_path() / "attend-demo-XXXXXX").string()) {
    require<Error>(mkdtemp(folder_.data()) != nullptr, folder_, ": cannot create a temporary folder");
    write_file(path(), content);
  }
  ~TemporaryFile() {
    std::error_code error;
    std::filesystem::remove_all(folder_, error);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  std::string path() const { return folder_ + "/dates.tsv"; }

 private:
  std::string folder_;
};

TrainingFolder prepare(const DemoArguments& arguments, TrainingPrinter& printer) {
  const std::string lines = date_lines(static_cast<uint64_t>(arguments.seed));
  const TemporaryFile pairs(lines);
  const Progress progress = [shown = printer.progress()](const std::string& what, double share) {
    shown(what.starts_with("Reading") ? "Reading the dates" : what, share);
  };
  TrainingFolder folder =
      TrainingFolder::create(date_job(arguments, pairs.path()), arguments.output, true, stoppable(progress));
  write_file(arguments.output + kMark, kMarkText);
  write_file(arguments.output + "/dates.tsv", lines);
  return folder;
}

struct Exam {
  std::vector<DatePair> pairs;
  std::vector<std::string> answers;
  int64_t right = 0;
  double accuracy() const { return static_cast<double>(right) / static_cast<double>(pairs.size()); }
};

Exam examine(const PairModel& model, const Tokenizer& tokenizer, uint64_t seed) {
  Exam exam;
  std::vector<std::string> sources;
  for (uint64_t i = 0; i < kUnseen; ++i) {
    exam.pairs.push_back(date_pair(seed, i, DatePart::held_out));
    sources.push_back(exam.pairs.back().text);
  }
  for (const TranslatedLine& line : translate(model, tokenizer, sources)) {
    exam.answers.push_back(line.best[0].text);
    exam.right += exam.answers.back() == exam.pairs[exam.answers.size() - 1].iso;
  }
  return exam;
}

/// Cross-attention of the decoder's last layer, averaged over its heads, for each character written.
Table attention_table(const PairModel& model, const Tokenizer& tokenizer, const DatePair& pair) {
  const SpecialTokens& special = tokenizer.special();
  std::vector<int32_t> source = tokenizer.encode(pair.text), target = tokenizer.encode(pair.iso);
  std::vector<int64_t> in(source.begin(), source.end()), out{special.begin};
  in.push_back(special.end);
  out.insert(out.end(), target.begin(), target.end());
  AttentionRecorder recorder;
  model.hidden({.source = tensor<int64_t>(in, {1, std::ssize(in)}),
                .source_lengths = {},
                .target = tensor<int64_t>(out, {1, std::ssize(out)})},
               {.observer = &recorder});
  const auto weights =
      mean(model.cross_weights(recorder.traces).back(), 1).to_vector<float>();  // [1, targets, sources]
  Table table;
  for (const int32_t id : source) table.columns.push_back(visible(tokenizer.decode(std::vector{id})));
  for (size_t row = 0; row < target.size(); ++row) {
    table.rows.push_back(visible(tokenizer.decode(std::vector{target[row]})));
    std::vector<Cell> cells;
    for (size_t column = 0; column < source.size(); ++column) {
      const float weight = weights[row * in.size() + column];
      cells.push_back({.text = weight < 0.005f ? "·" : std::to_string(static_cast<int>(weight * 100 + 0.5f)),
                       .share = weight,
                       .faint = weight < 0.005f});
    }
    table.cells.push_back(std::move(cells));
  }
  return table;
}

const DatePair& shown_date() {
  static const DatePair pair{"Samstag, 3. Mai 2025", "2025-05-03"};
  return pair;
}

/// Writes a page that shows the model at work on one date into its folder. Returns the path; empty without a page.
std::string write_page(const TrainingFolder& folder, const std::string& path) {
  const std::string packed = packed_page();
  if (packed.empty()) return "";
  const DatePair& date = shown_date();
  // The folder owns the model and outlives the page.
  const InspectedModel model{.name = std::filesystem::weakly_canonical(path).filename().string(),
                             .model = std::shared_ptr<const Model>(std::shared_ptr<void>(), &folder.model()),
                             .tokenizer = folder.data().tokenizer,
                             .example = date.text,
                             .example_target = date.iso};
  const Run run = capture(*model.model, *model.tokenizer, {.text = date.text, .target = date.iso});
  DocumentOptions options{.version = ATTEND_VERSION, .packed = true, .training = {}};
  if (const auto log = TrainingFeed::from_log(path)) options.training = log->json();
  const std::string file = path + "/inside.html";
  write_file(file, inspect_page(unpacked(packed), inspect_document(model, run, options)));
  return file;
}

void show(const Exam& exam, const PairModel& model, const Tokenizer& tokenizer) {
  const Terminal terminal = standard_terminal("auto");
  std::ostream& out = terminal.out;
  out << '\n' << bold(terminal, "Dates it was not trained on") << '\n';
  for (size_t i = 0; i < kShown; ++i) {
    const std::string text = fitted(exam.pairs[i].text, 44);
    out << "   " << text << std::string(static_cast<size_t>(46 - display_width(text)), ' ') << "→ " << exam.answers[i]
        << (exam.answers[i] == exam.pairs[i].iso ? "" : "   (expected " + exam.pairs[i].iso + ")") << '\n';
  }
  out << "   " << exam.right << " of " << kUnseen << " correct\n\n";
  out << bold(terminal, "What it attends to") << '\n'
      << "   Rows are the characters written, columns the characters read: attention of the\n"
         "   decoder's last layer, averaged over its heads, in percent.\n";
  print_table(terminal, attention_table(model, tokenizer, shown_date()));
}

/// The command as a user can type it: its name if it is in PATH, otherwise its path.
std::string command_word() {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path own = fs::read_symlink("/proc/self/exe", error);
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (access((folder + "/attend").c_str(), X_OK) == 0) return "attend";
  }
  if (error || own.empty()) return "attend";
  const fs::path near = fs::proximate(own, error);
  return shell_word(error || near.string().size() > own.string().size() ? own.string() : near.string());
}

/// Prints where the files are, and commands to try.
void show_next(const std::string& model, const std::string& page) {
  const Terminal terminal = standard_terminal("auto");
  std::ostream& out = terminal.out;
  const std::string program = command_word(), path = shell_word(model);
  out << '\n' << bold(terminal, "Next steps") << '\n' << "   The model is in " << model << ".\n";
  if (!page.empty()) out << "   Open " << page << " in a browser to look inside the model.\n";
  const std::vector<std::pair<std::string, std::string>> commands{
      {"view " + path, "the same page, for any date you type"},
      {"translate " + path + " \"二〇二五年五月三日\"", "use the model"},
      {"train transformer train.en train.de -o en-de", "train a translation model on two aligned files"},
      {"train gpt novel.txt -o novel", "train a language model on any text"},
      {"train --help", "all architectures and options"}};
  int widest = 0;
  for (const auto& [command, about] : commands) widest = std::max(widest, display_width(command));
  for (const auto& [command, about] : commands) {
    const auto gap = static_cast<size_t>(widest + 3 - display_width(command));
    out << "   " << program << ' ' << command << std::string(gap, ' ') << about << '\n';
  }
}

/// Whether `attend demo` wrote this folder, which it marks.
bool is_demo(const std::string& path) {
  try {
    return read_file(path + kMark, 4096) == kMarkText;
  } catch (const FormatError&) {
    return false;
  }
}

void check_output(const std::string& path) {
  namespace fs = std::filesystem;
  const bool other = fs::exists(path) && !is_demo(path) && !(fs::is_directory(path) && fs::is_empty(path));
  require<Error>(!other, path, " already exists and was not made by attend demo; choose another folder with -o");
}

/// Trains like `attend train`: a signal saves a checkpoint, prints how to continue, and ends the process.
TrainingFolder train_dates(const DemoArguments& arguments, Device device) {
  TrainingPrinter printer(std::cerr, arguments.json);
  if (!arguments.json) acknowledge_signals();
  try {
    TrainingFolder folder = prepare(arguments, printer);
    folder.to(device);
    if (!arguments.json) printer.start(folder);
    const TrainingOutcome outcome = folder.run(printer.observer(), &stop_after_saving());
    if (outcome.end != TrainingOutcome::End::interrupted) return folder;
    printer.finish(folder, outcome, arguments.output);
  } catch (const StopRequested&) {
    printer.line("Stopped before training began; nothing was written.");
  }
  exit_by_signal();
}

void run_demo(const DemoArguments& arguments) {
  const Device device = use(arguments.compute);
  check_output(arguments.output);
  const auto start = std::chrono::steady_clock::now();
  const auto seed = static_cast<uint64_t>(arguments.seed);
  survive_file_limits();
  if (!arguments.json) {
    std::cout << "Training a small Transformer to read dates in English, German and Chinese:\n"
              << "   " << date_pair(seed, 0).text << " → " << date_pair(seed, 0).iso << std::endl;
  }
  const TrainingFolder folder = train_dates(arguments, device);
  const auto& model = dynamic_cast<const PairModel&>(folder.model());
  const Exam exam = examine(model, *folder.data().tokenizer, seed);
  const std::string page = write_page(folder, arguments.output);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (arguments.json) {
    std::cout << Json{{"seconds", seconds}, {"accuracy", exam.accuracy()}, {"model", arguments.output}}.dump() << '\n';
    return;
  }
  show(exam, model, *folder.data().tokenizer);
  show_next(arguments.output, page);
}

}  // namespace

void add_demo(Command& app) {
  Command* command = app.add_subcommand("demo", "Train a small Transformer to read dates, in about a minute");
  const auto arguments = std::make_shared<DemoArguments>();
  command->add_option("-o,--output", arguments->output, "Model folder to write (default: date-model)")
      ->type_name("MODEL");
  add_training_seed(*command, arguments->seed);
  command->add_option("--steps", arguments->steps, "Training steps (default: 2600)")
      ->check(whole_number(1, 1000000))
      ->type_name("N");
  add_compute_options(*command, arguments->compute);
  add_json(*command, arguments->json, "Print only a JSON object: {\"seconds\", \"accuracy\", \"model\"}");
  command->footer("\nExample:\n  attend demo -o dates\n");
  command->callback([arguments] { run_demo(*arguments); });
}

}  // namespace attend::cli
