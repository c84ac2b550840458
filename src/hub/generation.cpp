#include "hub/generation.h"

#include <algorithm>
#include <array>
#include <span>

#include "io/printable.h"

namespace attend::hub {
namespace {

constexpr double kMostPenalty = 1000;
constexpr size_t kMostTasks = 1000;

/// Lists of token ids, as in "bad_words_ids".
std::vector<std::vector<int32_t>> token_lists(const HubConfig& config, const char* key) {
  if (!config.has(key)) return {};
  const Json& lists = config.json()[key];
  const auto is_word = [](const Json& id) {
    return id.is_number_integer() && id.get<double>() >= 0 && id.get<double>() < kMostVocab;
  };
  const auto is_list = [&](const Json& list) {
    return list.is_array() && !list.empty() && std::ranges::all_of(list, is_word);
  };
  if (!lists.is_array() || !std::ranges::all_of(lists, is_list)) {
    config.refuse(in_quotes(key) + " must be a list of lists of token ids");
  }
  return lists.get<std::vector<std::vector<int32_t>>>();
}

/// Reads banned tokens. transformers exempts end tokens from "bad_words_ids", but not from "suppress_tokens".
void read_banned(const HubConfig& words, const HubConfig& suppressed, GenerationRules& rules) {
  for (std::vector<int32_t>& run : token_lists(words, "bad_words_ids")) {
    if (run.size() > 1) {
      rules.banned_runs.push_back(std::move(run));
    } else if (std::ranges::find(rules.ends, run[0]) == rules.ends.end()) {
      rules.banned.push_back(run[0]);
    }
  }
  for (const int32_t id : suppressed.tokens("suppress_tokens")) {
    if (id >= 0) rules.banned.push_back(id);
  }
}

EarlyStopping early_stopping(const HubConfig& config) {
  constexpr const char* kKey = "early_stopping";
  if (!config.has(kKey)) return EarlyStopping::likely;
  if (config.json()[kKey].is_boolean()) return config.flag(kKey, false) ? EarlyStopping::eager : EarlyStopping::likely;
  config.expect(kKey, "never");
  return EarlyStopping::never;
}

/// Keys that change what transformers writes and that nothing here follows, with the value that asks for nothing.
struct Unfollowed {
  const char* key;
  double usual;
};
constexpr std::array kUnfollowed{Unfollowed{"num_beam_groups", 1},
                                 Unfollowed{"diversity_penalty", 0},
                                 Unfollowed{"encoder_repetition_penalty", 1},
                                 Unfollowed{"sequence_bias", 0},
                                 Unfollowed{"penalty_alpha", 0},
                                 Unfollowed{"dola_layers", 0},
                                 Unfollowed{"exponential_decay_length_penalty", 0},
                                 Unfollowed{"guidance_scale", 1},
                                 Unfollowed{"force_words_ids", 0},
                                 Unfollowed{"constraints", 0},
                                 Unfollowed{"forced_decoder_ids", 0},
                                 Unfollowed{"stop_strings", 0},
                                 Unfollowed{"token_healing", 0},
                                 Unfollowed{"watermarking_config", 0}};

/// Keys that do not change which text greedy search and beams write.
void ignore_harmless(const HubConfig& config) {
  // Sampling, which the options of the command and GenerateOptions set.
  config.ignore({"do_sample", "temperature", "top_k", "top_p", "top_h", "min_p", "typical_p", "epsilon_cutoff",
                 "eta_cutoff", "num_return_sequences"});
  // How transformers computes and returns the same text.
  config.ignore({"max_time", "use_cache", "cache_implementation", "cache_config", "max_cache_len",
                 "return_legacy_cache", "prefill_chunk_size", "low_memory", "compile_config", "disable_compile",
                 "continuous_batching_config", "output_attentions", "output_hidden_states", "output_scores",
                 "output_logits", "return_dict_in_generate", "remove_invalid_values"});
  // Tokens that the tokenizer's files define, and the origin of the file.
  config.ignore({"bos_token_id", "pad_token_id", "transformers_version", "_from_model_config", "_commit_hash"});
  // Speculative decoding, which changes only the speed.
  config.ignore({"is_assistant", "num_assistant_tokens", "num_assistant_tokens_schedule",
                 "assistant_confidence_threshold", "assistant_early_exit", "assistant_lookbehind",
                 "assistant_ensemble_weight", "target_lookbehind", "prompt_lookup_num_tokens",
                 "max_matching_ngram_size", "use_mtp", "speculation_type"});
}

/// Whether a value has an effect: not null, false, the usual number or an empty list.
bool asks(const Json& value, double usual) {
  if (value.is_number()) return value.get<double>() != usual;
  if (value.is_boolean()) return value.get<bool>();
  return !value.empty();
}

/// Takes each rule from the first of these files that has it.
GenerationRules rules_from(const std::vector<HubConfig>& files) {
  const auto where = [&](const char* key) -> const HubConfig& {
    const HubConfig* found = nullptr;
    for (const HubConfig& file : files) {  // all of them, so that the key counts as read in each
      if (file.has(key) && found == nullptr) found = &file;
    }
    return found == nullptr ? files.back() : *found;
  };
  const auto token = [&](const char* key) { return where(key).token(key); };
  const auto length = [&](const char* key) { return where(key).count(key, kMostContext, 0); };
  GenerationRules rules{.as_transformers = true};
  rules.start = token("decoder_start_token_id");
  rules.ends = where("eos_token_id").tokens("eos_token_id");
  rules.forced_first = token("forced_bos_token_id");
  // BART's first configs say it so.
  const bool forces_first = where("force_bos_token_to_be_generated").flag("force_bos_token_to_be_generated", false);
  if (forces_first && rules.forced_first < 0) rules.forced_first = token("bos_token_id");
  rules.forced_last = token("forced_eos_token_id");
  rules.beam = where("num_beams").count("num_beams", kMostBeam, 0);
  rules.max_length = length("max_length");
  rules.max_new = length("max_new_tokens");
  rules.min_length = length("min_length");
  rules.min_new = length("min_new_tokens");
  rules.no_repeat = length("no_repeat_ngram_size");
  rules.no_repeat_source = length("encoder_no_repeat_ngram_size");
  rules.repetition_penalty =
      where("repetition_penalty").number("repetition_penalty", 1, 1 / kMostPenalty, kMostPenalty);
  rules.renormalizes = where("renormalize_logits").flag("renormalize_logits", false);
  read_banned(where("bad_words_ids"), where("suppress_tokens"), rules);
  rules.banned_first = where("begin_suppress_tokens").tokens("begin_suppress_tokens");
  rules.prefix = where("prefix").text("prefix", "");
  rules.length_penalty = where("length_penalty").number("length_penalty", 1, -100, 100);
  rules.early_stopping = early_stopping(where("early_stopping"));
  for (const auto& [key, usual] : kUnfollowed) {
    if (where(key).has(key) && asks(where(key).json()[key], usual)) rules.unfollowed.emplace_back(key);
  }
  for (const HubConfig& file : files) ignore_harmless(file);
  // The last one is config.json, whose other keys are the network's.
  for (const HubConfig& file : std::span(files).first(files.size() - 1)) {
    for (const HubConfig::Unread& unknown : file.unread()) rules.unfollowed.push_back(unknown.key);
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
    const HubConfig task = all.section(name.c_str());
    result[name] = rules_from({task, own, config});
    for (const HubConfig::Unread& unknown : task.unread()) task.ignore({unknown.key.c_str()});  // named as not followed
  }
  return result;
}

Json rules_json(const GenerationRules& rules) {
  Json json = Json::object();
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
  for (const int32_t id : rules.banned) {
    const bool ends = std::ranges::find(rules.ends, id) != rules.ends.end();
    ends ? json["suppress_tokens"].push_back(id) : json["bad_words_ids"].push_back({id});
  }
  for (const std::vector<int32_t>& run : rules.banned_runs) json["bad_words_ids"].push_back(run);
  if (!rules.banned_first.empty()) json["begin_suppress_tokens"] = rules.banned_first;
  number("num_beams", rules.beam);
  number("max_length", rules.max_length);
  number("max_new_tokens", rules.max_new);
  number("min_length", rules.min_length);
  number("min_new_tokens", rules.min_new);
  number("no_repeat_ngram_size", rules.no_repeat);
  number("encoder_no_repeat_ngram_size", rules.no_repeat_source);
  if (rules.repetition_penalty != 1) json["repetition_penalty"] = rules.repetition_penalty;
  if (rules.renormalizes) json["renormalize_logits"] = true;
  json["length_penalty"] = rules.length_penalty;
  json["early_stopping"] = rules.early_stopping == EarlyStopping::eager;
  if (rules.early_stopping == EarlyStopping::never) json["early_stopping"] = "never";
  if (!rules.prefix.empty()) json["prefix"] = rules.prefix;
  return json;
}

}  // namespace attend::hub
