#pragma once

#include <map>
#include <string>

#include "attend/models/generation_rules.h"
#include "hub/hub_config.h"

namespace attend::hub {

/// The rules of generation_config.json, or of config.json, where older folders have the same keys.
GenerationRules generation_rules(const std::string& folder, const HubConfig& config);
/// The same for each of config.json's "task_specific_params", which take precedence over the general rules.
std::map<std::string, GenerationRules> task_rules(const std::string& folder, const HubConfig& config);
/// The rules as a generation_config.json.
Json rules_json(const GenerationRules& rules);

}  // namespace attend::hub
