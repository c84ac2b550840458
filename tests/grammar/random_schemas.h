#pragma once

#include <string>

#include "attend/io/json.h"
#include "grammar/walks.h"

namespace attend::testing {

inline Json random_schema(Draws& draws, int depth = 0);

inline Json random_object_schema(Draws& draws, int depth) {
  Json result{{"type", "object"}, {"properties", Json::object()}};
  Json required = Json::array();
  for (uint32_t i = draws.below(4); i > 0; --i) {
    const std::string name =
        std::string(1, static_cast<char>('a' + draws.below(4))) + (draws.below(2) == 0 ? "" : "天\"");
    result["properties"][name] = random_schema(draws, depth + 1);
    if (draws.below(2) == 0) required.push_back(name);
  }
  if (!required.empty()) result["required"] = required;
  const uint32_t others = draws.below(4);
  if (others == 0) result["additionalProperties"] = false;
  if (others == 1) result["additionalProperties"] = random_schema(draws, depth + 1);
  return result;
}

inline Json random_array_schema(Draws& draws, int depth) {
  Json result{{"type", "array"}, {"items", random_schema(draws, depth + 1)}};
  if (draws.below(3) == 0) result["prefixItems"] = Json::array({random_schema(draws, depth + 1)});
  if (draws.below(2) == 0) result["minItems"] = draws.below(3);
  if (draws.below(2) == 0) result["maxItems"] = 2 + draws.below(3);
  return result;
}

inline Json random_string_schema(Draws& draws) {
  static constexpr const char* kPatterns[] = {"^[a-f]{2,5}$", "x", "^(ab|c)+$", "[^\\d]$", "^\\p{Lu}\\w*", "天|^$"};
  static constexpr const char* kFormats[] = {"date", "time", "date-time", "uuid", "ipv4", "email", "ipv6", "hostname"};
  Json result{{"type", "string"}};
  switch (draws.below(4)) {
    case 0:
      result["pattern"] = kPatterns[draws.below(std::size(kPatterns))];
      break;
    case 1:
      result["format"] = kFormats[draws.below(std::size(kFormats))];
      break;
    case 2:
      result["minLength"] = draws.below(4);
      result["maxLength"] = 4 + draws.below(20);
      break;
    default:
      break;
  }
  return result;
}

/// A schema of the supported keywords.
inline Json random_schema(Draws& draws, int depth) {
  switch (draws.below(depth > 3 ? 5 : 10)) {
    case 0:
      return random_string_schema(draws);
    case 1: {
      const int32_t least = static_cast<int32_t>(draws.below(2000)) - 1000;
      return Json{{"type", "integer"}, {"minimum", least}, {"exclusiveMaximum", least + 1 + int32_t(draws.below(500))}};
    }
    case 2:
      return Json{{"type", Json::array({"number", "null"})}};
    case 3:
      return Json{{"enum", Json::array({"x", "天", 3, false, nullptr, Json::array({1, "y"})})}};
    case 4:
      return Json{{"type", "boolean"}};
    case 5:
      return Json{{"anyOf", Json::array({random_schema(draws, depth + 1), random_schema(draws, depth + 1)})}};
    case 6:
    case 7:
      return random_array_schema(draws, depth);
    default:
      return random_object_schema(draws, depth);
  }
}

}  // namespace attend::testing
