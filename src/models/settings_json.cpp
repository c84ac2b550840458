#include "models/settings_json.h"

#include <algorithm>

namespace attend {

void check_keys(const Json& json, const std::vector<SettingInfo>& settings) {
  for (const auto& [key, value] : json.items()) {
    const bool known = key == "architecture" || std::ranges::find(settings, key, &SettingInfo::name) != settings.end();
    require<SettingError>(known, "there is no setting '", key, "'");
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
