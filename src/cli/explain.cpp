#include "cli/commands.h"
#include "cli/explain_print.h"
#include "cli/explain_words.h"

#include <iostream>
#include <memory>

#include "attend/base/error.h"
#include "attend/text/segment.h"
#include "cli/command_line.h"
#include "cli/line_work.h"
#include "cli/shared_options.h"

namespace attend::cli {
namespace {

constexpr size_t kMostTokens = 1024;  // the size of --json grows quadratically

constexpr const char* kExplainExamples = R"(
Examples:
  attend explain "今天天气很好"
  attend explain --trainable --heads 2 --positions "the cat sat on the mat"
  attend explain --language zh "今天天气很好"           in Chinese, also if the locale is Chinese
  echo "any text" | attend explain --json -

--json prints one object with the keys text, tokens, seed, dim, heads, causal, trainable, scale, embeddings, positions,
x, matrices (query, key, value, output), per_head (queries, keys, values, dot_products, scaled, masked, weights,
context) and output. Matrices are lists of rows; −∞ and absent values are null.)";

struct ExplainArguments {
  ExplainOptions options;
  PrintOptions print;
  bool json = false, no_causal = false;
  std::string colour = "auto";
  Option* dim = nullptr;
};

/// Small enough to read and divisible by `heads`: 4 for one head, otherwise the smallest multiple from 8 on.
int64_t default_dim(int64_t heads) { return heads == 1 ? 4 : (8 + heads - 1) / heads * heads; }

void run_explain(ExplainArguments& arguments) {
  ExplainOptions& options = arguments.options;
  options.causal = !arguments.no_causal;
  if (arguments.dim->count() == 0) options.dim = default_dim(options.heads);
  if (options.dim % options.heads != 0) {
    throw UsageError("--dim " + std::to_string(options.dim) + " is not divisible by --heads " +
                     std::to_string(options.heads));
  }
  if (arguments.print.language.empty()) arguments.print.language = language_of_locale();
  suggest_file(arguments.print.text, "attend explain - < %FILE");
  const std::string text = text_or_input(arguments.print.text);
  std::vector<std::string> tokens = segment(text);
  require<FormatError>(!tokens.empty(), "explain: expected a text with words or characters, got none");
  require<FormatError>(tokens.size() <= kMostTokens, "explain: expected at most ", kMostTokens, " tokens, got ",
                       tokens.size());
  const ExplainSteps steps = explain_steps(std::move(tokens), options);
  if (arguments.json) {
    std::cout << steps_to_json(steps, text) << '\n';
  } else {
    arguments.print.text = text;
    print_steps(standard_terminal(arguments.colour), steps, arguments.print);
  }
}

}  // namespace

void add_explain(Command& app) {
  Command* command = app.add_subcommand("explain", "Show how attention is computed, step by step");
  const auto arguments = std::make_shared<ExplainArguments>();
  arguments->print.language.clear();
  ExplainOptions& options = arguments->options;
  command->add_option("text", arguments->print.text, "Sentence in any script; - is standard input")
      ->required()
      ->type_name("TEXT");
  command->add_option("--heads", options.heads, "Number of attention heads (default: 1)")
      ->check(whole_number(1, 64))
      ->type_name("N");
  arguments->dim =
      command->add_option("--dim", options.dim, "Size of each vector (default: 4; with several heads: 8 or more)")
          ->check(whole_number(1, 512))
          ->type_name("N");
  command->add_flag("--no-causal", arguments->no_causal, "Let tokens attend to later tokens, too");
  command->add_flag("--trainable", options.trainable, "Compute queries, keys and values with matrices Wq, Wk, Wv");
  command->add_flag("--positions", options.positions, "Add sinusoidal positions to the vectors");
  command->add_option("--seed", options.seed, "Random seed of the vectors and matrices (default: 0)")
      ->check(whole_number(0, UINT64_MAX))
      ->type_name("N");
  command->add_option("--limit", arguments->print.limit, "Maximum number of tokens in the tables (default: 24)")
      ->check(whole_number(1, kMostTokens))
      ->type_name("N");
  command->add_option("--language", arguments->print.language, "Language of the text: en or zh (default: the locale's)")
      ->check(one_of({"en", "zh"}))
      ->type_name("NAME");
  add_json(*command, arguments->json, "Print all numbers as a JSON object");
  command->add_option("--color", arguments->colour, "Use of colors: auto, always or never (default: auto)")
      ->check(one_of({"auto", "always", "never"}))
      ->type_name("NAME");
  command->footer(kExplainExamples);
  command->callback([arguments] { run_explain(*arguments); });
}

}  // namespace attend::cli
