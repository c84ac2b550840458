#include "attend/hub/sentence_transformers.h"

#include <filesystem>

#include "attend/base/error.h"
#include "hub/common_settings.h"
#include "hub/hub_config.h"
#include "hub/hub_weights.h"
#include "io/json_depth.h"
#include "io/mapped_file.h"
#include "io/printable.h"

namespace attend {
namespace {

namespace fs = std::filesystem;
using hub::HubConfig;

constexpr const char* kModules = "modules.json";

struct Module {
  std::string type, path;
};

/// Whether a module's path ("", "1_Pooling") stays inside the folder.
bool is_inside(const std::string& path) {
  const fs::path normal = fs::path(path).lexically_normal();
  return !normal.is_absolute() && (normal.empty() || *normal.begin() != "..");
}

std::vector<Module> read_modules(const std::string& folder) {
  const std::string file = folder + "/" + kModules;
  const MappedFile mapped = map_file(file);
  const std::string text(reinterpret_cast<const char*>(mapped.bytes.data()), mapped.bytes.size());
  require<FormatError>(is_shallow_json(text), file, ": the JSON is nested too deep");
  const Json json = Json::parse_or_null(text);
  require<FormatError>(json.is_array() && !json.empty(), file, ": expected a list of modules");
  std::vector<Module> modules;
  for (const Json& one : json) {
    require<FormatError>(one.is_object() && one.contains("type") && one["type"].is_string() && one.contains("path") &&
                             one["path"].is_string(),
                         file, ": a module must have a type and a path");
    modules.push_back({one["type"].string(), one["path"].string()});
    require<FormatError>(is_inside(modules.back().path), file, ": the path ", in_quotes(modules.back().path),
                         " leads out of the folder");
    // "sentence_transformers.models.Pooling", or a longer path in newer versions: the last component counts.
    modules.back().type = modules.back().type.substr(modules.back().type.rfind('.') + 1);
  }
  return modules;
}

std::vector<TextPooling> pooling_of(const HubConfig& config) {
  static const std::vector<std::pair<const char*, TextPooling>> flags{
      {"pooling_mode_cls_token", TextPooling::first},
      {"pooling_mode_max_tokens", TextPooling::max},
      {"pooling_mode_mean_tokens", TextPooling::mean},
      {"pooling_mode_mean_sqrt_len_tokens", TextPooling::mean_sqrt},
      {"pooling_mode_weightedmean_tokens", TextPooling::weighted},
      {"pooling_mode_lasttoken", TextPooling::last}};
  static const std::vector<std::pair<std::string, TextPooling>> names{{"cls", TextPooling::first},
                                                                      {"max", TextPooling::max},
                                                                      {"mean", TextPooling::mean},
                                                                      {"mean_sqrt_len_tokens", TextPooling::mean_sqrt},
                                                                      {"weightedmean", TextPooling::weighted},
                                                                      {"lasttoken", TextPooling::last}};
  if (config.has("pooling_mode")) {  // one word, in newer files, which goes before the flags
    for (const auto& [flag, pooling] : flags) config.ignore({flag});
    const std::string name = config.text("pooling_mode", "");
    for (const auto& [word, pooling] : names) {
      if (word == name) return {pooling};
    }
    config.refuse("'pooling_mode' " + in_quotes(name) + " is not supported");
  }
  std::vector<TextPooling> result;
  for (const auto& [flag, pooling] : flags) {
    if (config.flag(flag, false)) result.push_back(pooling);
  }
  if (result.empty()) config.refuse("no pooling mode is enabled");
  return result;
}

/// The default prompt, by its name.
std::string prompt_of(const HubConfig& config) {
  const std::string name = config.text("default_prompt_name", "");
  return name.empty() ? "" : config.section("prompts").text(name.c_str(), "");
}

}  // namespace

bool is_sentence_folder(const std::string& folder) { return fs::is_regular_file(folder + "/" + kModules); }

SentenceFolder read_sentence_folder(const std::string& folder) {
  hub::check_links(folder);
  const std::vector<Module> modules = read_modules(folder);
  const auto inside = [&](const Module& module) { return module.path.empty() ? folder : folder + "/" + module.path; };
  require<FormatError>(modules[0].type == "Transformer", folder, "/", kModules,
                       ": the first module must be of type Transformer, got ", in_quotes(modules[0].type));
  SentenceFolder result{.model = inside(modules[0]), .settings = {}, .prompt = {}};
  for (size_t i = 1; i < modules.size(); ++i) {
    if (modules[i].type == "Pooling") {
      const HubConfig config = HubConfig::read(inside(modules[i]), "config.json");
      config.expect("include_prompt", true);
      config.ignore({"word_embedding_dimension", "embedding_dimension"});  // the model says it
      result.settings.pooling = pooling_of(config);
      hub::require_all_read(config);
    } else if (modules[i].type == "Normalize") {
      result.settings.is_normalized = true;
    } else {
      throw FormatError(folder + "/" + kModules + ": module type " + in_quotes(modules[i].type) +
                        " is not supported; expected Transformer, Pooling or Normalize");
    }
  }
  const HubConfig length = HubConfig::read(result.model, "sentence_bert_config.json");
  result.settings.longest = length.count("max_seq_length", kMostContext, 0);
  length.expect("do_lower_case", false);
  result.prompt = prompt_of(HubConfig::read(folder, "config_sentence_transformers.json"));
  return result;
}

}  // namespace attend
