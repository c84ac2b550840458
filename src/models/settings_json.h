#pragma once

#include <sstream>
#include <string>

#include "attend/base/error.h"
#include "attend/io/json.h"
#include "attend/models/setting_error.h"
#include "attend/models/settings.h"

// Conversion of config structs to JSON and back, based on their settings(visit).
namespace attend {

namespace detail {

template <class T>
concept Choice = std::is_enum_v<T>;

template <class T>
Json setting_json(const T& value) {
  if constexpr (Choice<T>) {
    return names_of(value)[static_cast<size_t>(value)];
  } else {
    return value;
  }
}

inline std::string up_to(double most) {
  std::ostringstream text;
  text.precision(16);
  text << " to " << most;
  return text.str();
}

template <class T>
void read_setting(const Json& json, const char* name, double most, T& value) {
  const auto wrong = [&](const std::string& expected) {
    throw SettingError(std::string("'") + name + "' must be " + expected + ", got " + json.dump().substr(0, 60));
  };
  if constexpr (Choice<T>) {
    std::string all;
    for (size_t i = 0; i < names_of(T{}).size(); ++i) {
      if (json == names_of(T{})[i]) return void(value = static_cast<T>(i));
      if constexpr (requires { former_names_of(T{}); }) {
        if (json == former_names_of(T{})[i]) return void(value = static_cast<T>(i));
      }
      all += (i > 0 ? ", " : "") + std::string(names_of(T{})[i]);
    }
    wrong("one of " + all);
  } else if constexpr (std::is_same_v<T, bool>) {
    if (!json.is_boolean()) wrong("true or false");
    value = json.get<bool>();
  } else if constexpr (std::is_same_v<T, int64_t>) {
    if (!json.is_number_integer() || !(json.get<double>() >= 0 && json.get<double>() <= most)) {
      wrong("a whole number from 0" + up_to(most));
    }
    value = json.get<int64_t>();
  } else if constexpr (std::is_same_v<T, double>) {
    if (!json.is_number() || !(json.get<double>() >= 0 && json.get<double>() <= most)) {
      wrong("a number from 0" + up_to(most));
    }
    value = json.get<double>();
  } else {
    const bool strings = json.is_array() && std::ranges::all_of(json, [](const auto& j) { return j.is_string(); });
    if constexpr (std::is_same_v<T, std::string>) {
      if (!json.is_string()) wrong("a string");
    } else if (!strings) {
      wrong("a list of strings");
    }
    value = json.get<T>();
  }
}

template <class T>
SettingInfo setting_info(const char* name, const char* help) {
  SettingInfo info{.name = name, .help = help, .kind = "list", .choices = {}};
  if constexpr (Choice<T>) {
    info.kind = "choice";
    for (const std::string_view choice : names_of(T{})) info.choices.emplace_back(choice);
  } else if constexpr (std::is_same_v<T, bool>) {
    info.kind = "yes or no";
  } else if constexpr (std::is_same_v<T, int64_t>) {
    info.kind = "integer";
  } else if constexpr (std::is_same_v<T, double>) {
    info.kind = "number";
  } else if constexpr (std::is_same_v<T, std::string>) {
    info.kind = "text";
  }
  return info;
}

}  // namespace detail

/// The descriptions of all settings, in the order of settings(visit).
template <class Config>
Json settings_json(const Config& config, Json json = {}) {
  Config::settings([&](const char* name, auto member, const char*, double = 0) {
    json[name] = detail::setting_json(config.*member);
  });
  return json;
}

template <class Config>
std::string config_text(const std::string& architecture, const Config& config) {
  const Json json = settings_json(config, {{"architecture", architecture}});
  return json.dump(2);
}

template <class Config>
std::vector<SettingInfo> config_settings() {
  std::vector<SettingInfo> result;
  Config::settings([&]<class T>(const char* name, T Config::*, const char* help, double = 0) {
    result.push_back(detail::setting_info<T>(name, help));
  });
  return result;
}

/// Throws SettingError for a key that is neither "architecture" nor one of the settings.
void check_keys(const Json& json, const std::vector<SettingInfo>& settings);

/// Missing settings keep their defaults; unknown ones throw SettingError.
template <class Config>
Config config_from(const Json& json) {
  check_keys(json, config_settings<Config>());
  Config config;
  Config::settings([&](const char* name, auto member, const char*, double most = kNoLimit) {
    const std::string former(former_name(name));
    if (json.contains(name)) {
      detail::read_setting(json[name], name, most, config.*member);
    } else if (!former.empty() && json.contains(former)) {
      detail::read_setting(json[former], name, most, config.*member);
    }
  });
  return config;
}

/// Parses a setting's value as written on the command line. An invalid value becomes a JSON string, which is rejected
/// when the setting is read.
Json setting_value(const SettingInfo& info, const std::string& text);

}  // namespace attend
