#include "cli/commands.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "attend/base/error.h"
#include "attend/generate/generate_text.h"
#include "attend/grammar/constraint.h"
#include "attend/grammar/json_schema.h"
#include "attend/io/files.h"
#include "cli/command_line.h"
#include "cli/json_text.h"
#include "cli/line_work.h"
#include "cli/model_folder.h"
#include "cli/processes.h"
#include "cli/shared_options.h"
#include "cli/signals.h"

namespace attend::cli {
namespace {

constexpr const char* kGenerateExamples = R"(
Examples:
  attend generate shakespeare "ROMEO:"
  attend generate novel "从前有" --temperature 0.8 --top-p 0.9 --tokens 300
  attend generate shakespeare --count 3 --seed 7 --json
  attend generate shakespeare -i prompts.txt -o texts.jsonl --json
  attend generate shakespeare --whole-text < prompt.txt
  attend generate qwen "Describe a cat as JSON:" --schema cat.json

Continues each text argument, or each line of a file or of standard input. A single text is printed word by word; with
--beam, which searches for the likeliest text, when it is complete. Several texts are separated by a line of three
dashes; --json prints one object per line. Without a prompt, the model starts a new text. The same seed gives the same
text. When the context is full, generation continues from its last half. The generation settings of a Hugging Face
folder apply unless an option overrides them. With --schema, a text can only become JSON that satisfies the schema;
--tokens may still cut it.)";

struct GenerateArguments {
  CommonOptions common;
  CacheOptions cache;
  DraftOptions draft;
  GenerateOptions options{.sampling = {.temperature = 0.8}};
  std::optional<int64_t> beam;
  bool greedy = false, whole_text = false;
  std::string schema;  // a file, "json" or empty
  std::function<bool()> is_sampling_given;
  Option *penalty_option = nullptr, *input_option = nullptr;
};

/// Options take precedence over the folder's generation rules.
void take_rules(GenerateArguments& arguments, const GenerationRules& rules) {
  GenerateOptions& options = arguments.options;
  options.rules = rules;
  if (arguments.penalty_option->count() > 0)
    options.rules.repetition_penalty = 1;  // sampling applies the option's value
  const bool is_open = !arguments.greedy && !arguments.is_sampling_given();
  options.beam = arguments.beam.value_or(is_open && rules.beam > 0 ? rules.beam : 1);
  if (options.beam > 1 && options.copies > options.beam) {
    throw UsageError("--count " + std::to_string(options.copies) + " requires a --beam of at least " +
                     std::to_string(options.copies) + ", got " + std::to_string(options.beam));
  }
}

Json to_json(const GeneratedText& text, const std::string& prompt) {
  return {{"prompt", prompt},
          {"text", text.text},
          {"tokens", text.ids.size()},
          {"log_probability", text.log_probability},
          {"ending", name_of(text.ending)}};
}

constexpr int64_t kLargestSchema = 10'000'000;  // bytes

/// The constraint of --schema.
std::shared_ptr<const Constraint> schema_constraint(const std::string& schema, const Tokenizer& tokenizer) {
  const auto read = [&] {
    if (schema == "json") return json_object_grammar();
    try {
      return json_schema_grammar(Json::parse(read_file(schema, kLargestSchema)));
    } catch (const JsonError& error) {
      throw_error<FormatError>(schema, ": ", error.what());
    }
  };
  const Grammar grammar = read();
  try {
    return Constraint::create(grammar, std::make_shared<const TokenTrie>(tokenizer));
  } catch (const ConstraintError& error) {
    throw_error<ConstraintError>("--schema ", schema, ": ", error.what());
  }
}

/// Whether standard input is a pipe or a file.
bool has_piped_input() {
  struct stat status {};
  return fstat(STDIN_FILENO, &status) == 0 &&
         (S_ISFIFO(status.st_mode) || S_ISREG(status.st_mode) || S_ISSOCK(status.st_mode));
}

/// Continues the prompts, chunk by chunk.
class GenerateCommand {
 public:
  GenerateCommand(const GenerateArguments& arguments, const ModelFolder& folder, const CommonOptions& common)
      : arguments_(arguments),
        options_(arguments.options),
        folder_(folder),
        is_terminal_(isatty(STDOUT_FILENO) == 1 && (common.output.empty() || common.output == "-")),
        work_("generate", common,
              {.unit = "prompts",
               .chunk = chunk_of(arguments.options),
               .is_continuable = false,
               .is_divisible = !arguments.whole_text && common.input.texts.size() != 1}) {}

  void run() {
    if (arguments_.whole_text) {
      if (is_first_process()) write_rest();
    } else {
      auto prompts = work_.next();
      const bool is_new_text = prompts.empty() && work_.read() == 0 && !arguments_.input_option->count();
      if (is_new_text && is_first_process() && !is_stop_requested()) prompts = {""};
      for (; !prompts.empty(); prompts = work_.next()) write(prompts);
    }
    work_.finish(folder_.model->context());
  }

 private:
  void write_rest() {
    std::string prompt = work_.rest();
    while (prompt.ends_with('\n')) prompt.pop_back();
    write({prompt});
  }

  /// Beam search processes one prompt at a time.
  static ChunkLimits chunk_of(const GenerateOptions& options) {
    const int64_t prompts = options.beam > 1 ? 1 : std::max<int64_t>(options.batch_rows / options.copies, 1);
    return {.lines = static_cast<size_t>(prompts)};
  }

  /// Prints a single text word by word, several texts when they are complete.
  void write(const std::vector<std::string>& prompts) {
    const bool is_streamed = prompts.size() == 1 && options_.copies == 1 && !arguments_.common.json;
    options_.first_index = work_.before();
    if (is_streamed) begin_text(), put(prompts[0]);
    const auto texts =
        generate_text(language_model(folder_), *folder_.tokenizer, prompts, options_, [&](const TextPiece& piece) {
          if (is_streamed && !piece.text.empty()) put(std::string(piece.text));
          if (!is_streamed) work_.computed(0);
          return !is_stop_requested();
        });
    if (is_streamed) {
      put("\n");
      work_.speed().add(std::ssize(texts[0].ids));
      return texts[0].ending == Ending::callback ? work_.keep_partial() : work_.done();
    }
    const int64_t finished = finished_prompts(texts, prompts.size());
    for (const GeneratedText& text : texts) {
      if (text.prompt < finished) add(text, prompts[static_cast<size_t>(text.prompt)]);
    }
    work_.flush();
    work_.done(finished);
  }

  /// The number of prompts before the first with an unfinished text.
  static int64_t finished_prompts(const std::vector<GeneratedText>& texts, size_t prompts) {
    const auto cut = std::ranges::find(texts, Ending::callback, &GeneratedText::ending);
    return cut == texts.end() ? static_cast<int64_t>(prompts) : cut->prompt;
  }

  void add(const GeneratedText& text, const std::string& prompt) {
    work_.speed().add(std::ssize(text.ids));
    if (arguments_.common.json) return work_.output().line(json_line(to_json(text, prompt)));
    begin_text();
    work_.output().line(shown(prompt + text.text));
  }

  /// Prints a line of three dashes between texts.
  void begin_text() {
    if (has_written_ || work_.before() > 0) work_.output().line("---");
    has_written_ = true;
  }

  void put(const std::string& text) {
    work_.output().bytes(shown(text));
    work_.flush();
  }

  std::string shown(const std::string& text) const { return is_terminal_ ? without_controls(text) : text; }

  const GenerateArguments& arguments_;
  GenerateOptions options_;
  const ModelFolder& folder_;
  bool is_terminal_, has_written_ = false;
  LineWork work_;
};

void check_usage(const GenerateArguments& arguments) {
  const bool samples = arguments.is_sampling_given();
  if (arguments.greedy && samples) {
    throw UsageError("--greedy cannot be combined with --temperature and other sampling options");
  }
  if (arguments.beam.value_or(1) > 1 && (arguments.greedy || samples)) {
    throw UsageError("--beam cannot be combined with --greedy or sampling options");
  }
  if (!arguments.schema.empty() && arguments.options.goes_past_end) {
    throw UsageError("--schema cannot be combined with --past-end");
  }
  const auto& texts = arguments.common.input.texts;
  if (arguments.whole_text && !texts.empty() && texts[0] != "-") {
    throw UsageError("--whole-text requires a prompt from a file (-i) or standard input");
  }
}

void run_generate(GenerateArguments& arguments) {
  const Device device = use(arguments.common.compute);
  check_usage(arguments);
  GenerateOptions& options = arguments.options;
  const bool is_greedy = arguments.greedy || (arguments.beam == 1 && !arguments.is_sampling_given());
  if (is_greedy) options.sampling.temperature = 0;
  options.use_cache = !arguments.cache.is_off;
  options.cache_type = arguments.cache.dtype();
  options.draft_tokens = arguments.draft.tokens(device, arguments.cache);
  const ModelFolder folder = open_model(arguments.common.model, arguments.common.weights, device);
  const PrecisionScope precision(arguments.common.weights.precision(device), device);
  language_model(folder);  // throws if this is another kind of model
  check_cache(folder, arguments.cache);
  take_rules(arguments, folder.rules);
  if (!arguments.schema.empty()) options.constraint = schema_constraint(arguments.schema, *folder.tokenizer);
  warn_unfollowed(folder);
  CommonOptions common = arguments.common;
  const bool is_given = !common.input.texts.empty() || arguments.input_option->count() > 0 || arguments.whole_text;
  if (!is_given && !first_process_says(has_piped_input())) common.input.texts = {""};  // a new text
  GenerateCommand(arguments, folder, common).run();
}

}  // namespace

void add_generate(Command& app) {
  Command* command = app.add_subcommand("generate", "Continue a prompt with a language model");
  const auto arguments = std::make_shared<GenerateArguments>();
  GenerateOptions& options = arguments->options;
  add_model_options(*command, arguments->common);
  add_text_options(*command, arguments->common);
  command->get_option("text")
      ->description("Texts to continue (default: the lines of --input; -: standard input)")
      ->type_name("TEXT");
  arguments->input_option = command->get_option("--input");
  add_whole_text(*command, arguments->whole_text);
  command
      ->add_option("--tokens", options.tokens,
                   "Maximum number of new tokens (default: the model's generation settings, else 200)")
      ->check(whole_number(1, 100000000))
      ->type_name("N");
  command->add_flag("--greedy", arguments->greedy, "Always choose the likeliest token");
  add_beam(*command, arguments->beam, "the model's generation settings, else no beam search");
  arguments->is_sampling_given = add_sampling_options(*command, options.sampling);
  arguments->penalty_option = command->get_option("--repetition-penalty");
  command->get_option("--temperature")
      ->description("Sampling temperature: below 1 safer, above 1 more varied (default: 0.8)");
  command->add_option("--count", options.copies, "Number of texts per prompt (default: 1)")
      ->check(whole_number(1, 100000))
      ->type_name("N");
  command->add_option("--stop", options.stop, "End the text before TEXT; may be given several times")
      ->type_name("TEXT")
      ->expected(1)
      ->take_all();
  command->add_flag("--past-end", options.goes_past_end, "Continue after the model's end token");
  add_cache_options(*command, arguments->cache);
  add_draft(*command, arguments->draft);
  command
      ->add_option("--schema", arguments->schema,
                   "JSON schema that each text must satisfy; \"json\": any JSON object (default: any text)")
      ->type_name("FILE");
  command->footer(kGenerateExamples);
  command->callback([arguments] { run_generate(*arguments); });
}

}  // namespace attend::cli
