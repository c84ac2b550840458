#include <algorithm>
#include <array>

#include "attend/base/error.h"
#include "grammar/schema_compiler.h"

namespace attend::grammar {
namespace {

constexpr std::array kNotes{"$anchor",     "$comment",    "$defs",   "$id",        "$schema",
                            "$vocabulary", "definitions", "default", "deprecated", "description",
                            "examples",    "readOnly",    "title",   "writeOnly"};
constexpr std::array kLowerLimits{"minimum", "exclusiveMinimum", "minLength", "minItems"};
constexpr std::array kUpperLimits{"maximum", "exclusiveMaximum", "maxLength", "maxItems"};

template <size_t size>
bool is_one_of(const std::array<const char*, size>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

Json list_of(const Json& value) { return value.is_array() ? value : Json::array({value}); }

bool has(const Json& list, const Json& item) {
  return std::any_of(list.begin(), list.end(), [&](const Json& one) { return one == item; });
}

/// The types that both allow; an integer is a number.
Json common_types(const Json& a, const Json& b) {
  Json result = Json::array();
  for (const Json& type : list_of(a)) {
    const bool is_both = has(list_of(b), type) || (type == Json("integer") && has(list_of(b), "number"));
    if (is_both) result.push_back(type);
  }
  for (const Json& type : list_of(b)) {
    if (type == Json("integer") && has(list_of(a), "number") && !has(result, type)) result.push_back(type);
  }
  return result;
}

Json united(Json a, const Json& b) {
  for (const Json& item : b) {
    if (!has(a, item)) a.push_back(item);
  }
  return a;
}

Json common_items(const Json& a, const Json& b) {
  Json result = Json::array();
  for (const Json& item : a) {
    if (has(b, item)) result.push_back(item);
  }
  return result;
}

Json merged_properties(Json a, const Json& b) {
  for (const auto& [name, schema] : b.items()) {
    if (!a.contains(name)) {
      a[name] = schema;
    } else if (a[name] != schema) {
      a[name] = Json{{"allOf", Json::array({a[name], schema})}};
    }
  }
  return a;
}

/// The value of a keyword that both schemas set differently.
Json merged_value(const std::string& key, const Json& a, const Json& b, const std::string& path) {
  if (is_one_of(kLowerLimits, key) && a.is_number() && b.is_number()) return a.number() < b.number() ? b : a;
  if (is_one_of(kUpperLimits, key) && a.is_number() && b.is_number()) return a.number() < b.number() ? a : b;
  if (key == "properties" && a.is_object() && b.is_object()) return merged_properties(a, b);
  if (key == "required" && a.is_array() && b.is_array()) return united(a, b);
  if (key == "allOf" && a.is_array() && b.is_array()) return united(a, b);
  if (key == "enum" && a.is_array() && b.is_array()) return common_items(a, b);
  if (key == "type") {
    const Json types = common_types(a, b);
    require<FormatError>(!types.empty(), "schema: ", path, ": no type is allowed by all parts");
    return types;
  }
  throw_error<FormatError>("schema: ", path, ": merging different values of \"", key, "\" is not supported");
}

/// A schema that limits other properties cannot be merged with one that has more properties.
void check_closed(const Json& closed, const Json& other, const std::string& path) {
  if (closed.value<Json>("additionalProperties", true) == Json(true)) return;
  const Json own = closed.value<Json>("properties", Json::object());
  const Json properties = other.value<Json>("properties", Json::object());
  for (const auto& [name, schema] : properties.items()) {
    require<FormatError>(own.contains(name), "schema: ", path,
                         ": \"additionalProperties\" of one part does not allow \"", name, "\" of another");
  }
}

}  // namespace

bool is_annotation(std::string_view keyword) { return is_one_of(kNotes, keyword); }

Json merged_schemas(const Json& a, const Json& b, const std::string& path) {
  if (a.is_boolean() && a.boolean()) return b;
  if (b.is_boolean() && b.boolean()) return a;
  require<FormatError>(a.is_object() && b.is_object(), "schema: ", path, ": expected an object");
  check_closed(a, b, path);
  check_closed(b, a, path);
  Json result = a;
  for (const auto& [key, value] : b.items()) {
    const bool is_new = !result.contains(key) || is_annotation(key);
    if (is_new) {
      result[key] = value;
    } else if (result[key] != value) {
      result[key] = merged_value(key, result[key], value, path);
    }
  }
  return result;
}

}  // namespace attend::grammar
