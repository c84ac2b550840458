#include "cli/commands.h"

#include <iostream>
#include <memory>

#include "attend/base/error.h"
#include "attend/generate/align.h"
#include "attend/generate/translate.h"
#include "attend/io/json.h"
#include "cli/command_line.h"
#include "cli/json_text.h"
#include "cli/line_work.h"
#include "cli/model_folder.h"
#include "cli/shared_options.h"
#include "cli/signals.h"

namespace attend::cli {
namespace {

constexpr const char* kTranslateExamples = R"(
Examples:
  attend translate en-de "The weather is nice today."
  attend translate en-de -i test.en -o test.de --beam 5
  cat long.txt | attend translate en-de --beam 5 --n-best 3 --scores
  attend translate en-de "A dog runs." --alignments
  attend translate t5-small "A dog runs." --task translation_en_to_de

The output has one line for each input line, in the same order; an empty line stays empty. Columns are separated by
tabs: the number of the input line, from 0 (with --n-best), the translation, its score log p / length^A (--scores), and
its alignment (--alignments), as pairs source-target of word numbers from 0, taken from the decoder's cross-attention.
The generation settings of a Hugging Face folder (beam, length, prefix, …) apply unless an option overrides them.)";

struct TranslateArguments {
  CommonOptions common;
  CacheOptions cache;
  DraftOptions draft;
  SearchOptions search{.beam = 1};
  SamplingOptions sampling;
  AlignOptions align;
  bool sample = false, scores = false, alignments = false;
  std::optional<int64_t> beam;
  std::optional<double> length_penalty;
  std::optional<std::string> prefix;
  std::string task;
  int64_t layer = 0, head = 0;
  Option *layer_option = nullptr, *head_option = nullptr, *penalty_option = nullptr;
  std::function<bool()> is_sampling_given;
};

Json to_json(const WordAlignment& alignment) {
  Json links = Json::array();
  for (const auto& [source, target] : alignment.links) links.push_back({source, target});
  return {{"source", alignment.source},
          {"target", alignment.target},
          {"links", std::move(links)},
          {"weights", alignment.weights}};
}

Json to_json(const Translation& translation, const WordAlignment* alignment) {
  Json json{{"text", translation.text},
            {"score", translation.score},
            {"log_probability", translation.log_probability},
            {"tokens", translation.tokens},
            {"cut", translation.is_cut}};
  if (alignment) json["alignment"] = to_json(*alignment);
  return json;
}

/// Options take precedence over the folder's generation rules.
SearchOptions search_of(const TranslateArguments& arguments, GenerationRules rules) {
  if (arguments.prefix) rules.prefix = *arguments.prefix;
  if (arguments.penalty_option->count() > 0) rules.repetition_penalty = 1;  // sampling applies the option's value
  SearchOptions search = with_rules(arguments.search, rules);
  const bool samples = search.sampling.has_value();
  search.beam = arguments.beam.value_or(rules.beam > 0 && !samples ? rules.beam : 1);
  search.length_penalty = arguments.length_penalty.value_or(rules.length_penalty);
  if (!samples && search.n_best > search.beam) {
    throw UsageError("--n-best " + std::to_string(search.n_best) + " requires a --beam of at least " +
                     std::to_string(search.n_best) + ", got " + std::to_string(search.beam));
  }
  return search;
}

ModelFolder open_for(const TranslateArguments& arguments, Device device) {
  ModelFolder folder = open_model(arguments.common.model, arguments.common.weights, device);
  check_cache(folder, arguments.cache);
  choose_task(folder, arguments.task);
  if (!arguments.prefix && folder.rules.prefix.empty() && folder.tasks.size() > 1) {
    std::string names;
    for (const auto& [name, rules] : folder.tasks) names += (names.empty() ? "" : ", ") + in_one_line(name);
    std::cerr << "attend: " << folder.path << " has several tasks; choose one with --task: " << names << '\n';
  }
  return folder;
}

/// Translates chunk by chunk.
class TranslateCommand {
 public:
  TranslateCommand(const TranslateArguments& arguments, Device device)
      : arguments_(arguments),
        folder_(open_for(arguments, device)),
        model_(pair_model(folder_)),
        search_(search_of(arguments, folder_.rules)),
        work_("translate", arguments.common, {.chunk = chunk_of(search_), .is_continuable = search_.n_best == 1}) {
    warn_unfollowed(folder_);
    search_.on_step = check_stop;
  }

  void run() {
    for (auto lines = work_.next(); !lines.empty(); lines = work_.next()) {
      search_.first_index = work_.before();
      const auto results = translated(lines);
      align_results(lines, results);
      for (const TranslatedLine& result : results) write(lines[static_cast<size_t>(result.index)], result);
      work_.flush();
      work_.done(std::ssize(results));
    }
    work_.finish(model_.context());
  }

 private:
  /// Each hypothesis costs as much as a line.
  static ChunkLimits chunk_of(const SearchOptions& search) {
    ChunkLimits limits;
    limits.bytes /= static_cast<size_t>(std::max(search.beam, search.sampling ? search.n_best : 1));
    return limits;
  }

  /// Translates all lines; after a signal, returns the finished ones before the first unfinished line.
  std::vector<TranslatedLine> translated(const std::vector<std::string>& lines) {
    std::vector<TranslatedLine> results;
    try {
      translate(model_, *folder_.tokenizer, lines, search_, [&](const TranslatedLine& line) {
        results.push_back(line);
        work_.computed(std::ssize(results));
      });
    } catch (const StopRequested&) {
    }
    return results;
  }

  void align_results(const std::vector<std::string>& lines, const std::vector<TranslatedLine>& results) {
    alignments_.clear();
    next_alignment_ = 0;
    if (!arguments_.alignments) return;
    std::vector<std::string> sources;
    std::vector<Translation> targets;
    for (const TranslatedLine& result : results) {
      for (const Translation& translation : result.best) {
        sources.push_back(lines[static_cast<size_t>(result.index)]);
        targets.push_back(translation);
      }
    }
    AlignOptions options = arguments_.align;
    options.rules = search_.rules;
    try {
      alignments_ = align(model_, *folder_.tokenizer, sources, targets, options);
    } catch (const ShapeError& error) {  // the model does not have this layer or head
      const std::string text = error.what();
      throw UsageError("--alignments: " + text.substr(text.find(": ") + 2));
    }
  }

  void write(const std::string& source, const TranslatedLine& line) {
    if (line.is_source_cut) work_.cut(line.index);
    for (const Translation& translation : line.best) work_.speed().add(translation.tokens);
    arguments_.common.json ? write_json(source, line) : write_text(line);
  }

  void write_json(const std::string& source, const TranslatedLine& line) {
    Json json{{"source", source}};
    Json list = Json::array();
    for (const Translation& translation : line.best) list.push_back(to_json(translation, next_alignment()));
    json.update(list[0]);
    if (search_.n_best > 1) json["n_best"] = std::move(list);
    work_.output().line(json_line(json));
  }

  void write_text(const TranslatedLine& line) {
    for (const Translation& translation : line.best) {
      std::string text;
      if (search_.n_best > 1) text = std::to_string(work_.before() + line.index) + "\t";
      text += in_one_line(translation.text);
      const WordAlignment* alignment = next_alignment();
      const bool is_blank = line.source_tokens == 0;
      if (arguments_.scores && !is_blank) text.append("\t").append(score_text(translation.score));
      if (alignment && !is_blank) text.append("\t").append(pharaoh(*alignment));
      work_.output().line(text);
    }
  }

  const WordAlignment* next_alignment() { return alignments_.empty() ? nullptr : &alignments_[next_alignment_++]; }

  const TranslateArguments& arguments_;
  ModelFolder folder_;
  const PairModel& model_;
  SearchOptions search_;
  LineWork work_;
  std::vector<WordAlignment> alignments_;
  size_t next_alignment_ = 0;
};

void run_translate(TranslateArguments& arguments) {
  const Device device = use(arguments.common.compute);
  const PrecisionScope precision(arguments.common.weights.precision(device), device);
  SearchOptions& search = arguments.search;
  if (arguments.sample || arguments.is_sampling_given()) search.sampling = arguments.sampling;
  if (search.sampling && arguments.beam.value_or(1) > 1) {
    throw UsageError("--beam cannot be combined with --sample and other sampling options");
  }
  if (arguments.layer_option->count() > 0) arguments.align.layer = arguments.layer;
  if (arguments.head_option->count() > 0) arguments.align.head = arguments.head;
  if ((arguments.align.layer || arguments.align.head) && !arguments.alignments) {
    throw UsageError("--layer and --head require --alignments");
  }
  search.use_cache = !arguments.cache.is_off;
  search.cache_type = arguments.cache.dtype();
  search.draft_tokens = arguments.draft.tokens(device, arguments.cache);
  TranslateCommand(arguments, device).run();
}

void add_search_options(Command& command, TranslateArguments& arguments) {
  SearchOptions& search = arguments.search;
  add_beam(command, arguments.beam, "the model's generation settings, else 1");
  add_length_penalty(command, arguments.length_penalty);
  command.add_option("--n-best", search.n_best, "Number of translations per line (default: 1)")
      ->check(whole_number(1, 1000))
      ->type_name("N");
  command.add_flag(
      "--eager", [&search] { search.stop = SearchStop::eager; },
      "Stop the search of a line at --beam complete hypotheses: faster, slightly worse");
  command.add_flag("--sample", arguments.sample, "Sample at random instead of searching for the likeliest translation");
  arguments.is_sampling_given = add_sampling_options(command, arguments.sampling);
  arguments.penalty_option = command.get_option("--repetition-penalty");
  command
      .add_option(
          "--max-length", search.max_length,
          "Maximum number of tokens in a translation (default: the model's generation settings, else 3 · source + 10)")
      ->check(whole_number(1, 1000000))
      ->type_name("N");
  add_batch(command, search.batch_tokens);
  add_task(command, arguments.task);
  command.add_option("--prefix", arguments.prefix, "Text to put before every line (default: the prefix of the task)")
      ->type_name("TEXT");
  add_cache_options(command, arguments.cache);
  add_draft(command, arguments.draft);
}

}  // namespace

void add_translate(Command& app) {
  Command* command = app.add_subcommand("translate", "Translate text");
  const auto arguments = std::make_shared<TranslateArguments>();
  add_model_options(*command, arguments->common);
  add_text_options(*command, arguments->common);
  add_search_options(*command, *arguments);
  command->add_flag("--scores", arguments->scores, "Add a column with each translation's score");
  command->add_flag("--alignments", arguments->alignments, "Add a column with word alignments in Pharaoh format");
  arguments->layer_option = command->add_option("--layer", arguments->layer,
                                                "With --alignments: decoder layer, from 0 (default: mean of all)");
  arguments->layer_option->check(whole_number(0, 1000))->type_name("N");
  arguments->head_option = command->add_option("--head", arguments->head,
                                               "With --alignments: attention head, from 0 (default: mean of all)");
  arguments->head_option->check(whole_number(0, 1000))->type_name("N");
  command->footer(kTranslateExamples);
  command->callback([arguments] { run_translate(*arguments); });
}

}  // namespace attend::cli
