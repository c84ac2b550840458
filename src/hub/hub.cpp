#include "attend/hub/hub.h"

#include <filesystem>

#include "attend/io/files.h"
#include "attend/models/encoder.h"
#include "attend/models/gpt.h"
#include "attend/models/registry.h"
#include "attend/models/transformer_model.h"
#include "attend/nn/init.h"
#include "hub/architecture.h"
#include "hub/common_settings.h"
#include "hub/foreign_files.h"
#include "hub/generation.h"
#include "hub/llama2c.h"
#include "io/json_depth.h"
#include "io/printable.h"

namespace attend {
namespace {

namespace fs = std::filesystem;

const hub::HubArchitecture& architecture_of(const hub::HubConfig& config) {
  std::string names;
  for (const hub::HubArchitecture& one : hub::hub_architectures()) {
    if (one.model_type == config.model_type()) return one;
    names += (names.empty() ? "" : ", ") + one.model_type;
  }
  const std::string name = config.architecture().empty() ? config.model_type() : config.architecture();
  config.refuse("architecture " + in_quotes(name) + " (model_type " + in_quotes(config.model_type()) +
                ") is not supported; supported model types: " + names);
}

/// The rules of a translation model's only translation task; null if there are none or several.
const GenerationRules* only_translation(const std::map<std::string, GenerationRules>& tasks) {
  const GenerationRules* found = nullptr;
  for (const auto& [name, rules] : tasks) {
    if (!name.starts_with("translation")) continue;
    if (found != nullptr) return nullptr;
    found = &rules;
  }
  return found;
}

/// Whether the embedding is the model's output matrix, too.
bool has_tied_output(const Model& model) {
  if (const auto* language = dynamic_cast<const Gpt*>(&model)) return language->settings.tied;
  if (const auto* pair = dynamic_cast<const TransformerModel*>(&model)) return pair->settings.tied;
  const auto* encoder = dynamic_cast<const Encoder*>(&model);
  return encoder != nullptr && encoder->settings.masked && encoder->settings.tied;
}

/// A config may require an output matrix that the files do not have: see is_output_tied.
std::vector<std::string> notes_of(const hub::HubConfig& config, const Model& model) {
  if (!has_tied_output(model) || config.flag("tie_word_embeddings", true)) return {};
  return {"'tie_word_embeddings' is false, but the weights have no output matrix: the embedding is used instead"};
}

std::string heads_note(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return "weights of other tasks are not used: " + list;
}

/// Throws FormatError for unused weights: without them, the model would compute other results than the original.
void require_all_used(const std::vector<std::string>& unused, const hub::HubFolder& from) {
  if (unused.empty()) return;
  const std::string more = unused.size() > 1 ? " and " + std::to_string(unused.size() - 1) + " more" : "";
  throw FormatError(from.weights.name() + ": model_type " + in_quotes(from.config.model_type()) +
                    " does not use tensor " + in_quotes(unused[0]) + more + "; results without " +
                    (unused.size() > 1 ? "them" : "it") + " would be wrong (`attend info` lists all such tensors)");
}

}  // namespace

bool is_hub_folder(const std::string& folder) {
  const std::string path = folder + "/config.json";
  if (!fs::is_regular_file(path)) return false;
  const std::string text = read_file(path, 16 << 20);
  if (!is_shallow_json(text)) return false;
  const auto json = Json::parse_or_null(text);
  return json.is_object() && !json.contains("architecture") &&
         (json.contains("model_type") || json.contains("architectures"));
}

std::vector<std::string> hub_model_types() {
  std::vector<std::string> result;
  for (const hub::HubArchitecture& one : hub::hub_architectures()) result.push_back(one.model_type);
  return result;
}

LoadedModel load_hub_model(const std::string& folder, const HubOptions& options) {
  try {
    hub::check_links(folder);
    const hub::HubConfig config = hub::HubConfig::read(folder, "config.json");
    const hub::HubArchitecture& architecture = architecture_of(config);
    hub::read_common_settings(config);
    const hub::HubFolder from{folder, config, hub::HubWeights::open(folder)};
    LoadedModel result{.kind = architecture.model_type};
    {
      const BlankParameters scope;
      result.model = architecture.create(from);
    }
    const hub::NameMap names = architecture.names(from, *result.model);
    result.rules = hub::generation_rules(folder, config);
    result.tasks = hub::task_rules(folder, config);
    if (!options.allow_unused) hub::require_all_read(config);
    hub::LeftOver left = hub::load_weights(*result.model, names, from.weights, options);
    if (!options.allow_unused) require_all_used(left.unused, from);
    result.notes = notes_of(config, *result.model);
    if (!left.other_heads.empty()) result.notes.push_back(heads_note(left.other_heads));
    if (std::string note = hub::unread_note(config); !note.empty()) result.notes.push_back(std::move(note));
    result.unused = std::move(left.unused);
    if (const auto* only = only_translation(result.tasks); only && result.rules.prefix.empty()) result.rules = *only;
    return result;
  } catch (const std::exception& error) {
    const std::string what = error.what();
    throw FormatError(what.starts_with(folder) ? what : folder + ": " + what);
  }
}

LoadedModel load_any_model(const std::string& folder, const HubOptions& options) {
  if (is_hub_folder(folder)) return load_hub_model(folder, options);
  const bool has_config = fs::exists(folder + "/config.json"), has_weights = fs::exists(folder + "/model.safetensors");
  if (!has_weights) {
    if (const auto file = hub::find_llama2c(folder)) return hub::load_llama2c(*file);
  }
  if (fs::exists(folder) && !(has_config && has_weights)) hub::refuse_foreign(folder);
  LoadedModel result{.model = load_model(folder, {.in_place = true}), .kind = "attend"};
  if (fs::exists(folder + "/generation_config.json")) {  // trained with --from a Hugging Face model
    result.rules = hub::generation_rules(folder, hub::HubConfig("{}", folder + "/config.json"));
  }
  return result;
}

const GenerationRules& rules_for(const std::map<std::string, GenerationRules>& tasks, const std::string& task) {
  std::string names;
  for (const auto& [name, rules] : tasks) {
    if (name == task) return rules;
    names += (names.empty() ? "" : ", ") + in_quotes(name);
  }
  throw Error("unknown task " + in_quotes(task) +
              (names.empty() ? "; the model has no tasks" : "; expected one of " + names));
}

void save_generation_rules(const GenerationRules& rules, const std::string& folder) {
  const std::string text = hub::rules_json(rules).dump(2);
  write_file(folder + "/generation_config.json", text + "\n");
}

}  // namespace attend
