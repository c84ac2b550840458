#include "cli/commands.h"

#include <filesystem>
#include <iomanip>
#include <iostream>
#include <memory>
#include <sstream>

#include "attend/models/registry.h"
#include "cli/command_line.h"
#include "cli/info_devices.h"
#include "cli/json_text.h"
#include "cli/model_folder.h"
#include "cli/shared_options.h"
#include "cli/train_print.h"
#include "io/json_depth.h"
#include "io/printable.h"
#include "io/regular_file.h"

namespace attend::cli {
namespace {

constexpr const char* kInfoExamples = R"(
Examples:
  attend info en-de
  attend info en-de --json
  attend info --devices                  the CPU and the GPUs of this machine)";

constexpr size_t kLongestValue = 60;

/// Number of parameters by the first component of their names, in the model's order.
Json parameter_parts(const Model& model) {
  Json parts = Json::object();
  for (const auto& [name, tensor] : model.parameters()) {
    const std::string part = name.substr(0, name.find('.'));
    parts[part] = parts.value(part, int64_t{0}) + tensor.numel();
  }
  return parts;
}

int64_t total_parameters(const Model& model) {
  int64_t total = 0;
  for (const auto& [name, tensor] : model.parameters()) total += tensor.numel();
  return total;
}

Json special_tokens(const Tokenizer& tokenizer) {
  const SpecialTokens& special = tokenizer.special();
  Json json = Json::object();
  const auto add = [&](const char* name, int32_t id) {
    if (id >= 0) json[name] = {{"id", id}, {"token", tokenizer.token(id)}};
  };
  add("pad", special.pad);
  add("unknown", special.unknown);
  add("begin", special.begin);
  add("end", special.end);
  add("mask", special.mask);
  return json;
}

/// The last complete entry of training.jsonl; null if there is none.
Json last_of_training(const std::string& folder) {
  Json last;
  for_each_log_line(folder + "/training.jsonl", Links::follow, [&last](std::string_view line) {
    if (!is_shallow_json(line)) return;
    Json json = Json::parse_or_null(line);
    if (json.is_object()) last = std::move(json);
  });
  return last;
}

Json file_sizes(const std::string& folder) {
  std::vector<std::pair<std::string, int64_t>> files;
  if (!std::filesystem::is_directory(folder)) {  // a model may be a single file
    const std::filesystem::path file = folder;
    Json json = Json::object();
    json[file.filename().string()] = std::filesystem::file_size(file);
    return json;
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::error_code error;  // a link may be broken
    if (!entry.is_regular_file(error)) continue;
    const auto size = entry.file_size(error);
    if (!error) files.emplace_back(entry.path().filename().string(), static_cast<int64_t>(size));
  }
  std::ranges::sort(files);
  Json json = Json::object();
  for (const auto& [name, size] : files) json[name] = size;
  return json;
}

/// `tokenizer` is null for an image classifier and for a folder without a tokenizer.
Json vocabulary(const Tokenizer* tokenizer) {
  if (!tokenizer) return {{"size", 0}, {"special", Json::object()}};
  return {{"size", tokenizer->size()}, {"special", special_tokens(*tokenizer)}};
}

Json notes_of(const ModelFolder& folder) {
  Json notes = folder.notes;
  for (const std::string& key : folder.rules.unfollowed) {
    notes.push_back("the generation setting " + in_quotes(key) + " is not supported and ignored");
  }
  return notes;
}

Json describe(const ModelFolder& folder) {
  const Model& model = *folder.model;
  Json config = Json::parse(model.config());
  config.erase("architecture");
  return {{"model", folder.path},
          {"architecture", model.architecture()},
          {"kind", folder.kind},
          {"settings", std::move(config)},
          {"parameters", {{"total", total_parameters(model)}, {"parts", parameter_parts(model)}}},
          {"vocabulary", vocabulary(folder.tokenizer.get())},
          {"unused", folder.unused},
          {"notes", notes_of(folder)},
          {"training", last_of_training(folder.path)},
          {"files", file_sizes(folder.path)}};
}

std::string size_text(int64_t bytes) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(1);
  if (bytes < 1024) return std::to_string(bytes) + " B";
  const double kib = static_cast<double>(bytes) / 1024;
  kib < 1024 ? text << kib << " KiB" : text << kib / 1024 << " MiB";
  return text.str();
}

/// Tensors in the files that the model does not use, which hints at a problem with the model.
void print_unused(const Json& names) {
  if (names.empty()) return;
  std::cout << "\nUnused weights: " << names.size() << (names.size() == 1 ? " tensor\n" : " tensors\n");
  for (const auto& name : names) std::cout << "  " << name.get<std::string>() << '\n';
}

void print_notes(const Json& notes) {
  if (notes.empty()) return;
  std::cout << "\nNotes\n";
  for (const auto& note : notes) std::cout << "  " << note.get<std::string>() << '\n';
}

std::string summary_of(const std::string& architecture) {
  for (const Architecture& entry : architectures()) {
    if (entry.name == architecture) return entry.summary;
  }
  return "image classifier";  // the only kind that attend train does not support
}

/// A value as short text: long lists and texts are abbreviated.
std::string short_value(const Json& value) {
  std::string text = value.is_string() ? value.get<std::string>() : json_line(value);
  if (value.is_boolean()) text = value.get<bool>() ? "yes" : "no";
  if (value.is_number() && !value.is_number_integer()) {
    std::ostringstream number;
    number << value.get<double>();
    text = number.str();
  }
  if (text.size() <= kLongestValue) return text;
  return value.is_array() ? std::to_string(value.size()) + " entries" : "…";
}

void print_section(const char* title, const Json& entries, std::string (*shown)(const Json&)) {
  if (entries.empty()) return;
  std::cout << '\n' << title << '\n';
  for (const auto& [name, value] : entries.items()) {
    std::cout << "  " << std::left << std::setw(24) << name << shown(value) << '\n';
  }
}

void print(const Json& all) {
  const std::string architecture = all["architecture"].string();
  const std::string kind = all["kind"] == "attend" ? "" : " (from " + all["kind"].get<std::string>() + ")";
  std::cout << all["model"].get<std::string>() << ": " << architecture << ", " << summary_of(architecture) << kind
            << '\n'
            << grouped(all["parameters"]["total"].number()) << " parameters";
  if (all["vocabulary"]["size"].number() > 0) {
    std::cout << ", " << grouped(all["vocabulary"]["size"].number()) << " tokens in the vocabulary";
  }
  std::cout << '\n';
  const auto count = [](const Json& value) { return grouped(value.get<double>()); };
  print_section("Settings", all["settings"], short_value);
  print_section("Parameters", all["parameters"]["parts"], count);
  print_unused(all["unused"]);
  print_notes(all["notes"]);
  print_section("Special tokens", all["vocabulary"]["special"], [](const Json& value) {
    return value["token"].get<std::string>() + " (" + json_line(value["id"]) + ")";
  });
  print_section("End of training", all["training"], short_value);
  print_section("Files", all["files"], [](const Json& value) { return size_text(value.get<int64_t>()); });
}

}  // namespace

void add_info(Command& app) {
  Command* command = app.add_subcommand("info", "Describe a model folder, or the devices of this machine");
  struct Arguments {
    std::string model;
    bool devices = false, json = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("model", arguments->model, "Model folder")->type_name("MODEL");
  command->add_flag("--devices", arguments->devices, "List the CPU and the GPUs with their memory and driver");
  add_json(*command, arguments->json, "Print one JSON object");
  command->footer(kInfoExamples);
  command->callback([arguments] {
    if (arguments->model.empty() != arguments->devices) throw UsageError("expected either MODEL or --devices");
    const Json all = arguments->devices ? devices_json() : describe(describe_model(arguments->model));
    if (arguments->json) {
      std::cout << json_line(all) << '\n';
    } else {
      arguments->devices ? print_devices(all) : print(all);
    }
  });
}

}  // namespace attend::cli
