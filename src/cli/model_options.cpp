#include "cli/model_options.h"

#include <algorithm>

#include "attend/base/threads.h"
#include "cli/command_line.h"

namespace attend::cli {

WeightFormat WeightOptions::format() const {
  if (quantize.empty()) return dtype == "bf16" ? WeightFormat::bf16 : WeightFormat::f32;
  if (dtype == "bf16") throw UsageError("--dtype bf16 and --quantize exclude each other");
  return WeightFormat::int8;
}

bool WeightOptions::keeps_bf16() const { return dtype != "f32"; }

Precision WeightOptions::precision() const { return dtype == "bf16" && has_bf16() ? Precision::bf16 : Precision::f32; }

void add_weight_options(Command& command, WeightOptions& options) {
  command
      .add_option("--dtype", options.dtype,
                  "f32: widen bf16 files on loading; bf16: half the memory, and round the other operand of products "
                  "to bf16 where the processor multiplies it (default: bf16 files stay bf16, products are exact)")
      ->check(one_of({"f32", "bf16"}))
      ->type_name("TYPE");
  command.add_option("--quantize", options.quantize, "Hold weights as int8: a quarter of the memory, and faster")
      ->check(one_of({"int8"}))
      ->type_name("TYPE");
}

void add_model_options(Command& command, CommonOptions& options) {
  command.add_option("model", options.model, "Folder of a trained model")->required()->type_name("MODEL");
  add_weight_options(command, options.weights);
  command.add_option("--threads", options.threads, "Threads to use (default: all cores)")
      ->check(whole_number(1, 1024))
      ->type_name("N");
  command.add_flag("--json", options.json, "Print one JSON object for each line");
}

void add_text_options(Command& command, CommonOptions& options) {
  Option* texts =
      command.add_option("text", options.input.texts, "Texts; without any, or for -, lines are read from the input");
  texts->type_name("TEXT");
  command
      .add_option("-i,--input", options.input.file, "File to read, packed by gzip or not (default -, standard input)")
      ->type_name("FILE")
      ->excludes(texts);
  command.add_option("-o,--output", options.output, "File to write (default: standard output)")->type_name("FILE");
  command.add_flag("--lossy", options.input.lossy, "Replace what is not UTF-8 instead of stopping");
  command.add_flag("--unbuffered", options.input.unbuffered, "Answer each line of standard input as it comes");
  command.add_flag("--bench", options.bench, "Say how many tokens a second at the end");
}

std::function<bool()> add_sampling_options(Command& command, SamplingOptions& options) {
  std::vector<Option*> all;
  all.push_back(
      command.add_option("--temperature", options.temperature, "Divides logits: below 1 safer, above bolder"));
  all.back()->check(number_between(0, 1000))->type_name("T");
  all.push_back(command.add_option("--top-k", options.top_k, "Only the K likeliest words (0: all)"));
  all.back()->check(whole_number(0, 1000000000))->type_name("K");
  all.push_back(
      command.add_option("--top-p", options.top_p, "Only the likeliest words that together have probability P"));
  all.back()->check(number_between(0, 1))->type_name("P");
  all.push_back(command.add_option("--min-p", options.min_p, "Only words at least P times as likely as the likeliest"));
  all.back()->check(number_between(0, 1))->type_name("P");
  all.push_back(command.add_option("--repetition-penalty", options.repetition_penalty,
                                   "Make words that occurred less likely (1: off)"));
  all.back()->check(number_between(0.001, 1000))->type_name("R");
  command.add_option("--seed", options.seed, "Chooses the draws (default 0)")
      ->check(whole_number(0, UINT64_MAX))
      ->type_name("N");
  return [all] { return std::ranges::any_of(all, [](const Option* option) { return option->count() > 0; }); };
}

void use_threads(const CommonOptions& options) {
  if (options.threads > 0) set_threads(static_cast<int>(options.threads));
}

}  // namespace attend::cli
