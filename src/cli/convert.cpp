#include "cli/commands.h"

#include <filesystem>
#include <iostream>
#include <memory>

#include "attend/base/error.h"
#include "attend/hub/convert.h"
#include "attend/models/registry.h"
#include "cli/command_line.h"
#include "cli/model_folder.h"

namespace attend::cli {
namespace {

constexpr const char* kConvertExamples = R"(
Examples:
  attend convert novel -o novel-hf              export a language model
  attend convert novel -o novel-hf --to llama   export it as a Llama model
  attend convert en-de -o en-de-hf              export a translation model as marian, bart, pegasus, mbart or t5
  attend convert gpt2 -o mine --to attend       import a Hugging Face model

Without --to, a Hugging Face model is imported, and a model trained by attend is exported to the first architecture that
supports all its settings.)";

struct ConvertArguments {
  std::string model, output, to;
};

std::string target_of(const ConvertArguments& arguments, const ModelFolder& folder) {
  if (!arguments.to.empty()) return arguments.to;
  if (folder.kind != "attend") return "attend";
  try {
    return default_hub_target(*folder.model);
  } catch (const Error& error) {
    throw Error(folder.path + ": " + error.what());
  }
}

void save_as_ours(const ModelFolder& folder, const std::string& output) {
  require<Error>(!std::filesystem::exists(output) || std::filesystem::is_empty(output), output,
                 " already exists; choose another folder with -o");
  std::filesystem::create_directories(output);
  // Before the tokenizer, which reads the decoder's start token from these rules.
  if (folder.rules.as_transformers) save_generation_rules(folder.rules, output);
  folder.tokenizer->save(output);
  save_model(*folder.model, output);
}

void check_target(const std::string& to) {
  std::string known = "attend";
  for (const std::string& name : hub_targets()) {
    if (name == to) return;
    known += ", " + name;
  }
  if (!to.empty() && to != "attend") {
    throw UsageError("--to: cannot export to architecture '" + to + "'; expected one of " + known);
  }
}

void run_convert(const ConvertArguments& arguments) {
  check_target(arguments.to);
  const ModelFolder folder = open_model(arguments.model, {.dtype = "f32", .quantize = ""});
  require<Error>(
      folder.model->kind() != ModelKind::pictures, folder.path,
      ": this is an image classifier, which cannot be converted; attend reads the Hugging Face folder directly");
  try {
    check_finite_weights(*folder.model);
  } catch (const FormatError& error) {
    throw FormatError(folder.path + ": " + error.what() + "; nothing was written");
  }
  const std::string to = target_of(arguments, folder);
  if (to == "attend") {
    save_as_ours(folder, arguments.output);
  } else {
    save_hub_model(*folder.model, *folder.tokenizer, to, arguments.output, folder.rules);
  }
  std::cout << "Wrote " << arguments.output << " (" << to << ")\n";
}

}  // namespace

void add_convert(Command& app) {
  Command* command = app.add_subcommand("convert", "Export a model to Hugging Face format, or import one");
  const auto arguments = std::make_shared<ConvertArguments>();
  add_model(*command, arguments->model);
  command->add_option("-o,--output", arguments->output, "Folder to write")->required()->type_name("FOLDER");
  command
      ->add_option("--to", arguments->to,
                   "Target architecture: gpt2, llama, marian, bart, bert, …, or attend to import (default: see below)")
      ->type_name("NAME");
  command->footer(kConvertExamples);
  command->callback([arguments] { run_convert(*arguments); });
}

}  // namespace attend::cli
