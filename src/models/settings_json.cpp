#include "models/settings_json.h"

#include <algorithm>

namespace attend {

std::string_view former_name(std::string_view name) {
  if (name == "vocab_size") return "words";
  if (name == "ffn_dim" || name == "state_dim") return "hidden";
  if (name == "decoder_ffn_dim") return "decoder_hidden";
  return "";
}

const SettingInfo* find_setting(const std::vector<SettingInfo>& settings, std::string_view name) {
  const auto found = std::ranges::find_if(settings, [&](const SettingInfo& info) {
    return info.name == name || (!name.empty() && former_name(info.name) == name);
  });
  return found == settings.end() ? nullptr : &*found;
}

void check_keys(const Json& json, const std::vector<SettingInfo>& settings) {
  for (const auto& [key, value] : json.items()) {
    require<SettingError>(key == "architecture" || find_setting(settings, key), "unknown setting '", key, "'");
  }
}

Json setting_value(const SettingInfo& info, const std::string& text) {
  if (info.kind == "choice" || info.kind == "text") return text;
  if (info.kind == "yes or no") {
    for (const char* yes : {"yes", "true", "1", "on"}) {
      if (text == yes) return true;
    }
    for (const char* no : {"no", "false", "0", "off"}) {
      if (text == no) return false;
    }
    return text;
  }
  const Json json = Json::parse_or_null(text);
  return json.is_null() ? Json(text) : json;
}

}  // namespace attend
