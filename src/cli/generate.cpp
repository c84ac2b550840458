#include "cli/generate.h"

#include <unistd.h>

#include <iostream>
#include <memory>

#include "attend/base/error.h"
#include "attend/generate/generate_text.h"
#include "attend/text/utf8.h"
#include "cli/json_text.h"
#include "cli/model_folder.h"
#include "cli/model_options.h"
#include "cli/options.h"

namespace attend::cli {
namespace {

constexpr const char* kGenerateExamples = R"(
Examples:
  attend generate shakespeare "ROMEO:"
  attend generate novel "从前有" --temperature 0.8 --top-p 0.9 --tokens 300
  attend generate shakespeare --count 3 --seed 7 --json
  attend generate shakespeare - <prompt.txt

Text appears as it is written, after its prompt; with --beam, which searches for the likeliest text, when it is done. The
same seed gives the same text. When the model's context is full, it goes on from the last half of it. A Hugging Face
folder may say itself how long a text becomes, what is not repeated or written, and how wide the beam is; options go
before that.)";

struct GenerateArguments {
  CommonOptions common;
  GenerateOptions options{.sampling = {.temperature = 0.8}};
  std::optional<int64_t> beam;
  std::string prompt;
  bool greedy = false, no_cache = false;
  std::function<bool()> is_sampling_given;
  CLI::Option* penalty_option = nullptr;
};

/// What the folder says, then what the user does.
void take_rules(GenerateArguments& arguments, const GenerationRules& rules) {
  GenerateOptions& options = arguments.options;
  options.rules = rules;
  if (arguments.penalty_option->count() > 0) options.rules.repetition_penalty = 1;  // sampling has the user's
  const bool is_open = !arguments.greedy && !arguments.is_sampling_given();
  options.beam = arguments.beam.value_or(is_open && rules.beam > 0 ? rules.beam : 1);
  if (options.beam > 1 && options.copies > options.beam) {
    throw CLI::ValidationError("--count " + std::to_string(options.copies) + " needs a --beam as wide, got " +
                               std::to_string(options.beam));
  }
}

const char* name_of(Ending ending) {
  switch (ending) {
    case Ending::length:
      return "length";
    case Ending::end:
      return "end";
    case Ending::stop:
      return "stop";
    case Ending::callback:
      return "interrupted";
  }
  return "";
}

std::string read_prompt(const std::string& argument) {
  if (argument != "-") return argument;
  std::string text = TextInput({}).rest();
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

void show(const std::string& text, bool is_terminal) {
  std::cout << (is_terminal ? without_controls(text) : text) << std::flush;
  require<Error>(std::cout.good(), "cannot write the output");
}

Json to_json(const GeneratedText& text, const std::string& prompt) {
  return {{"prompt", prompt},
          {"text", text.text},
          {"tokens", text.ids.size()},
          {"log_probability", text.log_probability},
          {"ending", name_of(text.ending)}};
}

/// One text appears word by word; several one after the other.
void run_generate(GenerateArguments& arguments) {
  use_threads(arguments.common);
  GenerateOptions& options = arguments.options;
  if (arguments.greedy) {
    if (arguments.is_sampling_given()) throw CLI::ValidationError("--greedy leaves nothing to draw");
    options.sampling.temperature = 0;
  }
  if (arguments.beam.value_or(1) > 1 && (arguments.greedy || arguments.is_sampling_given())) {
    throw CLI::ValidationError("--beam excludes --greedy and sampling");
  }
  if (arguments.beam == 1 && !arguments.is_sampling_given()) options.sampling.temperature = 0;
  options.use_cache = !arguments.no_cache;
  const ModelFolder folder = open_model(arguments.common.model, arguments.common.weights);
  const MatmulPrecisionScope precision(arguments.common.weights.precision());
  const LanguageModel& model = language_model(folder);
  take_rules(arguments, folder.rules);
  warn_unfollowed(folder);
  const std::string prompt = read_prompt(arguments.prompt);
  require<FormatError>(is_utf8(prompt), "generate: the prompt is not UTF-8");
  const bool is_terminal = isatty(STDOUT_FILENO) == 1, is_streamed = !arguments.common.json && options.copies == 1;
  Speed speed;
  if (is_streamed) show(prompt, is_terminal);
  const auto texts =
      generate_text(model, *folder.tokenizer, std::span(&prompt, 1), options, [&](const TextPiece& piece) {
        if (is_streamed && !piece.text.empty()) show(std::string(piece.text), is_terminal);
        return true;
      });
  if (is_streamed) show("\n", is_terminal);
  for (const GeneratedText& text : texts) {
    speed.add(std::ssize(text.ids));
    if (arguments.common.json) show(json_line(to_json(text, prompt)) + "\n", false);
    if (arguments.common.json || is_streamed) continue;
    show((text.copy > 0 ? "---\n" : "") + prompt + text.text + "\n", is_terminal);
  }
  speed.print(arguments.common.bench);
}

}  // namespace

void add_generate(CLI::App& app) {
  CLI::App* command = app.add_subcommand("generate", "Let a language model go on from a prompt");
  const auto arguments = std::make_shared<GenerateArguments>();
  GenerateOptions& options = arguments->options;
  add_model_options(*command, arguments->common);
  command->add_option("prompt", arguments->prompt, "Text to go on from; - reads it from standard input")
      ->type_name("PROMPT");
  command->add_option("--tokens", options.tokens, "Most tokens to write (default 200, or what the folder says)")
      ->check(whole_number(1, 100000000))
      ->type_name("N");
  command->add_flag("--greedy", arguments->greedy, "Always take the likeliest word");
  command->add_option("--beam", arguments->beam, "Search for the likeliest text with N hypotheses side by side")
      ->check(whole_number(1, kMostBeam))
      ->type_name("N");
  arguments->is_sampling_given = add_sampling_options(*command, options.sampling);
  arguments->penalty_option = command->get_option("--repetition-penalty");
  command->get_option("--temperature")->description("Divides logits: below 1 safer, above bolder (default 0.8)");
  command->add_option("--count", options.copies, "Texts to write (default 1)")
      ->check(whole_number(1, 100000))
      ->type_name("N");
  command->add_option("--stop", options.stop, "End the text before this; may be given several times")
      ->type_name("TEXT")
      ->expected(1)
      ->take_all();
  command->add_flag("--past-end", options.goes_past_end, "Go on when the model ends its text");
  command->add_flag("--no-cache", arguments->no_cache, "Read everything again for each word: slow, to compare with");
  command->add_flag("--bench", arguments->common.bench, "Say how many tokens a second at the end");
  command->footer(kGenerateExamples);
  command->callback([arguments] { run_generate(*arguments); });
}

}  // namespace attend::cli
