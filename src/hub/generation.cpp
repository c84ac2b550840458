#include "hub/generation.h"

#include <algorithm>

namespace attend::hub {
namespace {

constexpr double kMostBeam = 4096;
constexpr size_t kMostTasks = 1000;

/// The words that "bad_words_ids" forbids; runs of several are refused.
std::vector<int32_t> banned_words(const HubConfig& config) {
  std::vector<int32_t> banned;
  if (!config.has("bad_words_ids")) return banned;
  const Json& lists = config.json()["bad_words_ids"];
  const auto is_word = [](const Json& list) {
    return list.is_array() && list.size() == 1 && list[0].is_number_integer() && list[0].get<double>() >= 0 &&
           list[0].get<double>() <= kMostWords;
  };
  if (!lists.is_array() || !std::ranges::all_of(lists, is_word)) {
    config.refuse("'bad_words_ids' must be a list of lists of one token each; others are not supported");
  }
  for (const Json& list : lists) banned.push_back(list[0].get<int32_t>());
  return banned;
}

/// What the first of these files says that says anything.
GenerationRules rules_from(const std::vector<HubConfig>& files) {
  const auto where = [&](const char* key) -> const HubConfig& {
    const auto found = std::ranges::find_if(files, [&](const HubConfig& file) { return file.has(key); });
    return found == files.end() ? files.back() : *found;
  };
  const auto token = [&](const char* key) { return where(key).token(key); };
  GenerationRules rules{.as_transformers = true};
  rules.start = token("decoder_start_token_id");
  rules.ends = where("eos_token_id").tokens("eos_token_id");
  rules.forced_first = token("forced_bos_token_id");
  rules.forced_last = token("forced_eos_token_id");
  rules.beam = where("num_beams").count("num_beams", kMostBeam, 0);
  rules.max_length = where("max_length").count("max_length", kMostContext, 0);
  rules.min_length = where("min_length").count("min_length", kMostContext, 0);
  rules.no_repeat = where("no_repeat_ngram_size").count("no_repeat_ngram_size", kMostContext, 0);
  rules.banned = banned_words(where("bad_words_ids"));
  rules.prefix = where("prefix").text("prefix", "");
  rules.length_penalty = where("length_penalty").number("length_penalty", 1, -100, 100);
  const HubConfig& stopping = where("early_stopping");
  if (stopping.has("early_stopping") && stopping.json()["early_stopping"].is_boolean()) {
    rules.is_eager = stopping.flag("early_stopping", false);
  } else {
    stopping.expect("early_stopping", "never");
    rules.is_patient = stopping.has("early_stopping");
  }
  return rules;
}

}  // namespace

GenerationRules generation_rules(const std::string& folder, const HubConfig& config) {
  return rules_from({HubConfig::read(folder, "generation_config.json"), config});
}

std::map<std::string, GenerationRules> task_rules(const std::string& folder, const HubConfig& config) {
  const HubConfig own = HubConfig::read(folder, "generation_config.json"), all = config.section("task_specific_params");
  std::map<std::string, GenerationRules> result;
  if (all.json().size() > kMostTasks) config.refuse("'task_specific_params' has too many tasks");
  for (const auto& [name, section] : all.json().items()) {
    result[name] = rules_from({all.section(name.c_str()), own, config});
  }
  return result;
}

nlohmann::ordered_json rules_json(const GenerationRules& rules) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  const auto token = [&](const char* key, int32_t id) {
    if (id >= 0) json[key] = id;
  };
  const auto number = [&](const char* key, int64_t value) {
    if (value > 0) json[key] = value;
  };
  token("decoder_start_token_id", rules.start);
  if (!rules.ends.empty()) json["eos_token_id"] = rules.ends;
  token("forced_bos_token_id", rules.forced_first);
  token("forced_eos_token_id", rules.forced_last);
  for (const int32_t id : rules.banned) json["bad_words_ids"].push_back({id});
  number("num_beams", rules.beam);
  number("max_length", rules.max_length);
  number("min_length", rules.min_length);
  number("no_repeat_ngram_size", rules.no_repeat);
  json["length_penalty"] = rules.length_penalty;
  json["early_stopping"] = rules.is_patient ? nlohmann::ordered_json("never") : nlohmann::ordered_json(rules.is_eager);
  if (!rules.prefix.empty()) json["prefix"] = rules.prefix;
  return json;
}

}  // namespace attend::hub
