#include "cli/commands.h"

#include <iostream>

#include "attend/base/error.h"
#include "attend/base/threads.h"
#include "attend/data/lines.h"
#include "attend/train/measure.h"
#include "cli/command_line.h"
#include "cli/evaluate_print.h"
#include "cli/json_text.h"
#include "cli/model_folder.h"
#include "cli/processes.h"
#include "cli/shared_options.h"
#include "cli/signals.h"
#include "cli/status_line.h"
#include "cli/text_files.h"
#include "cli/train_print.h"
#include "distributed/group.h"

namespace attend::cli {
namespace {
using Lines = std::vector<std::string>;

constexpr const char* kEvaluateExamples = R"(
Examples:
  attend evaluate en-de test.en test.de --beam 5               a translation model: BLEU, chrF, perplexity
  attend evaluate en-de pairs.tsv --output test.out            lines of source, tab, target; keep the translations
  attend evaluate novel test.txt                               a language model: perplexity, bits per character
  attend evaluate reviews test.tsv                             a classifier (label, tab, text): accuracy, F1
  attend evaluate --hypotheses out.de ref.de ref2.de --json    no model: a translation against its references

BLEU and chrF, and their signatures, are those of sacreBLEU. Files may be gzip-compressed; - is standard input. For a
language model each file is one text, and each token is predicted from at least half a context of preceding tokens.)";

struct EvaluateArguments {
  std::vector<std::string> files;  // the model comes first, unless --hypotheses is given
  std::string hypotheses, output, metric_tokenizer, task;
  std::optional<int64_t> beam;
  std::optional<double> length_penalty;
  CacheOptions cache;
  WeightOptions weights;
  ComputeOptions compute;
  bool lowercase = false, json = false, lossy = false, by_line = false;
};

MetricOptions metric_options(const EvaluateArguments& arguments) {
  MetricOptions options{.tokenizer = {}, .lowercase = arguments.lowercase};
  if (!arguments.metric_tokenizer.empty()) options.tokenizer = bleu_tokenizer(arguments.metric_tokenizer);
  return options;
}

template <class Measures>
void report(const EvaluateArguments& arguments, Json head, const Measures& measures, int64_t beam = 1) {
  if (!is_first_process()) return;
  if (arguments.json) {
    head.update(to_json(measures));
    std::cout << json_line(head) << '\n';
  } else if constexpr (std::is_same_v<Measures, TranslationMeasures>) {
    print_measures(standard_terminal("auto"), measures, beam);
  } else {
    print_measures(standard_terminal("auto"), measures);
  }
}

/// Reads lines like sacreBLEU: a byte order mark is part of the first word.
Lines lines_of(const std::string& path, bool lossy) {
  Lines lines;
  LineReader reader(path, {.lossy = lossy, .keep_mark = true});
  for (std::string line; reader.next(line);) lines.push_back(std::move(line));
  require<FormatError>(!lines.empty(), path, ": the file is empty");
  return lines;
}

void evaluate_hypotheses(const EvaluateArguments& arguments) {
  const Lines hypotheses = lines_of(arguments.hypotheses, arguments.lossy);
  std::vector<Lines> references;
  for (const std::string& file : arguments.files) {
    references.push_back(lines_of(file, arguments.lossy));
    require<FormatError>(references.back().size() == hypotheses.size(), arguments.hypotheses, " has ",
                         hypotheses.size(), " lines but ", file, " has ", references.back().size(),
                         "; hypotheses and references must have the same number of lines");
  }
  report(arguments, Json{}, text_metrics(hypotheses, references, metric_options(arguments)));
}

/// The file of --output.
class KeptTranslations {
 public:
  /// Throws now if the file cannot be written.
  explicit KeptTranslations(const std::string& path) : output_(path) {}

  void add(const std::string& hypothesis) {
    output_.line(in_one_line(hypothesis));
    output_.flush();
    ++count_;
  }
  void finish() { output_.finish(); }
  /// After a signal: keeps the translations so far, prints how many of `total` they are, and ends the process.
  [[noreturn]] void stop(size_t total) {
    if (count_ > 0) output_.finish();
    std::cerr << "attend: stopped after " << grouped(static_cast<double>(count_)) << " of "
              << grouped(static_cast<double>(total)) << " sentences; no results"
              << (count_ > 0 ? ", but the translations so far are in " + shell_word(output_.path()) : "") << '\n';
    exit_by_signal();
  }

 private:
  TextOutput output_;
  int64_t count_ = 0;
};

void evaluate_pairs(const EvaluateArguments& arguments, const ModelFolder& folder, const Lines& files) {
  if (files.size() > 2)
    throw UsageError("expected one file of pairs or two aligned files, got " + std::to_string(files.size()) + " files");
  Corpus corpus{
      .kind = CorpusKind::tsv, .files = {files[0]}, .targets = {}, .lossy = arguments.lossy, .keep_blank = true};
  if (files.size() == 2) corpus.kind = CorpusKind::pairs, corpus.targets = {files[1]};
  Lines sources, targets;
  CorpusReader reader(corpus);
  for (Example example; reader.next(example);) {
    sources.push_back(std::move(example.source));
    targets.push_back(std::move(example.target));
  }
  std::optional<KeptTranslations> kept;
  if (!arguments.output.empty() && is_first_process()) kept.emplace(arguments.output);
  SearchOptions search = search_by(folder.rules);  // as attend translate does
  search.beam = arguments.beam.value_or(search.beam);
  search.length_penalty = arguments.length_penalty.value_or(search.length_penalty);
  search.cache_type = arguments.cache.dtype();
  warn_unfollowed(folder);
  StatusLine status;
  TranslationMeasuring measuring{.search = search, .metrics = metric_options(arguments), .progress = [&](double share) {
                                   status.share("Translating", share);
                                 }};
  if (kept && distributed::world().size() == 1) {
    stop_after_lines();
    measuring.search.on_step = check_stop;
  }
  if (kept) measuring.on_hypothesis = [&](const std::string& hypothesis) { kept->add(hypothesis); };
  TranslationMeasures measures;
  try {
    measures = measure_translation(pair_model(folder), *folder.tokenizer, sources, targets, measuring);
  } catch (const StopRequested&) {
    status.clear();
    kept->stop(sources.size());
  }
  if (kept) kept->finish();
  status.clear();
  report(arguments, {{"model", folder.path}, {"beam", search.beam}}, measures, search.beam);
  if (measures.cut_sources > 0 && is_first_process()) {
    std::cerr << "attend: truncated " << measures.cut_sources << (measures.cut_sources == 1 ? " source" : " sources")
              << " to the model's maximum of " << folder.model->context() << " tokens\n";
  }
}

void evaluate_text(const EvaluateArguments& arguments, const ModelFolder& folder, const Lines& files) {
  const Corpus corpus{.kind = CorpusKind::text, .files = files, .targets = {}, .lossy = arguments.lossy};
  LanguageMeasures measures;
  {
    StatusLine status;
    measures = measure_language(
        language_model(folder), *folder.tokenizer, corpus, arguments.by_line,
        [&](double share) { status.share("Reading", share); }, folder.rules);
  }
  report(arguments, {{"model", folder.path}}, measures);
}

void evaluate_labels(const EvaluateArguments& arguments, const ModelFolder& folder, const Lines& files) {
  const EncoderModel& model = labelled_model(folder);
  const Corpus corpus{.kind = CorpusKind::labelled, .files = files, .targets = {}, .lossy = arguments.lossy};
  LabelMeasures measures;
  {
    StatusLine status;
    measures = measure_labels(model, *folder.tokenizer, corpus, [&](double share) { status.share("Reading", share); });
  }
  report(arguments, {{"model", folder.path}}, measures);
}

void evaluate_model(const EvaluateArguments& arguments, Device device) {
  if (arguments.files.size() < 2) throw UsageError("expected a model and evaluation files");
  if (distributed::world().size() > 1 && std::ranges::find(arguments.files, "-") != arguments.files.end()) {
    throw UsageError("- is standard input, which only one process has: name a file that all processes can read");
  }
  ModelFolder folder = open_model(arguments.files[0], arguments.weights, device);
  const PrecisionScope precision(arguments.weights.precision(device), device);
  choose_task(folder, arguments.task);
  const Lines files(arguments.files.begin() + 1, arguments.files.end());
  const ModelKind kind = folder.model->kind();
  if (!arguments.output.empty() && kind != ModelKind::translation) {
    throw UsageError("--output applies only to translation models; " + folder.path + " is not one");
  }
  if (arguments.cache.dtype() && kind != ModelKind::translation) {
    throw UsageError("--cache applies only to translation models; " + folder.path + " is not one");
  }
  check_cache(folder, arguments.cache);
  exit_with_message(is_first_process() ? "stopped; no results" : nullptr);
  switch (kind) {
    case ModelKind::translation:
      return evaluate_pairs(arguments, folder, files);
    case ModelKind::language:
      return evaluate_text(arguments, folder, files);
    case ModelKind::classification:
      return evaluate_labels(arguments, folder, files);
    case ModelKind::pictures:
      throw Error(folder.path +
                  ": this is an image classifier, which attend evaluate does not support: use attend classify");
  }
}

void run_evaluate(const EvaluateArguments& arguments) {
  if (arguments.hypotheses.empty()) return evaluate_model(arguments, use(arguments.compute));
  if (arguments.files.empty()) throw UsageError("--hypotheses requires one or more reference files");
  if (!arguments.output.empty()) throw UsageError("--hypotheses cannot be combined with --output");
  evaluate_hypotheses(arguments);
}

/// Accepts the names of sacreBLEU's tokenizers.
Check metric_tokenizer_name() {
  return [](std::string& name) -> std::string {
    try {
      bleu_tokenizer(name);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
}

}  // namespace

void add_evaluate(Command& app) {
  Command* command = app.add_subcommand("evaluate", "Evaluate a model, or a translation against references");
  const auto arguments = std::make_shared<EvaluateArguments>();
  command
      ->add_option("files", arguments->files, "Model folder and evaluation files; with --hypotheses, reference files")
      ->type_name("MODEL FILE");
  command
      ->add_option("--hypotheses", arguments->hypotheses,
                   "Translation to compare with the reference files, without a model")
      ->type_name("FILE");
  add_beam(*command, arguments->beam, "the model's generation settings, else 1");
  add_length_penalty(*command, arguments->length_penalty);
  command
      ->add_option("--metric-tokenizer", arguments->metric_tokenizer,
                   "Tokenizer of BLEU: 13a, zh, char, intl or none (default: zh for Chinese references, else 13a)")
      ->check(metric_tokenizer_name())
      ->suggest({"13a", "zh", "char", "intl", "none"})
      ->type_name("NAME");
  add_task(*command, arguments->task);
  command->add_flag("--lowercase", arguments->lowercase, "Compute BLEU and chrF in lower case");
  command->add_option("-o,--output", arguments->output, "File for the model's translations")->type_name("FILE");
  add_by_line(*command, arguments->by_line);
  add_lossy(*command, arguments->lossy);
  add_cache_type(*command, arguments->cache);
  add_weight_options(*command, arguments->weights);
  add_compute_options(*command, arguments->compute);
  add_json(*command, arguments->json, "Print one JSON object");
  command->footer(kEvaluateExamples);
  command->callback([arguments] { run_evaluate(*arguments); });
}

}  // namespace attend::cli
