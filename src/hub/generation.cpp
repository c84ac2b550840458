#include "hub/generation.h"

namespace attend::hub {
namespace {

constexpr double kMostBeam = 4096;

}  // namespace

GenerationRules generation_rules(const std::string& folder, const HubConfig& config) {
  const HubConfig own = HubConfig::read(folder, "generation_config.json");
  const auto where = [&](const char* key) -> const HubConfig& { return own.has(key) ? own : config; };
  const auto token = [&](const char* key) { return where(key).token(key); };
  GenerationRules rules{.as_transformers = true};
  rules.start = token("decoder_start_token_id");
  rules.ends = where("eos_token_id").tokens("eos_token_id");
  rules.forced_first = token("forced_bos_token_id");
  rules.forced_last = token("forced_eos_token_id");
  rules.beam = where("num_beams").count("num_beams", kMostBeam, 0);
  rules.max_length = where("max_length").count("max_length", kMostContext, 0);
  rules.length_penalty = where("length_penalty").number("length_penalty", 1, -100, 100);
  if (own.has("early_stopping") && own.json()["early_stopping"].is_boolean()) {
    rules.is_eager = own.flag("early_stopping", false);
  }
  return rules;
}

}  // namespace attend::hub
