#pragma once

#include <cmath>
#include <string>

#include "attend/io/json.h"
#include "attend/text/utf8.h"
#include "grammar/pattern.h"
#include "grammar/schema_compiler.h"

namespace attend::testing {

/// A simple validator of JSON values: the part of JSON Schema that the compiler supports.
class Validator {
 public:
  explicit Validator(const Json& root) : root_(root) {}

  bool accepts(const Json& value) const { return fits(root_, value); }

 private:
  static bool is_whole(const Json& value) { return value.is_number() && value.number() == std::floor(value.number()); }

  static bool has_type(const Json& value, const std::string& type) {
    return type == "integer" ? is_whole(value) : value.type_name() == type;
  }

  const Json& target(const std::string& reference) const {
    const Json* at = &root_;
    for (size_t begin = 2; begin <= reference.size() && reference.size() > 1;) {
      const size_t end = std::min(reference.find('/', begin), reference.size());
      at = &at->at(reference.substr(begin, end - begin));
      begin = end + 1;
    }
    return *at;
  }

  bool fits(const Json& schema, const Json& value) const {
    if (schema.is_boolean()) return schema.boolean();
    if (schema.contains("$ref") && !fits(target(schema["$ref"].string()), value)) return false;
    if (schema.contains("allOf")) {
      for (const Json& part : schema["allOf"]) {
        if (!fits(part, value)) return false;
      }
    }
    for (const char* keyword : {"anyOf", "oneOf"}) {
      if (!schema.contains(keyword)) continue;
      bool is_any = false;
      for (const Json& part : schema[keyword]) is_any |= fits(part, value);
      if (!is_any) return false;
    }
    if (schema.contains("const") && schema["const"] != value) return false;
    if (schema.contains("enum")) {
      bool is_any = false;
      for (const Json& one : schema["enum"]) is_any |= one == value;
      if (!is_any) return false;
    }
    if (schema.contains("type")) {
      bool is_any = false;
      const Json types = schema["type"].is_array() ? schema["type"] : Json::array({schema["type"]});
      for (const Json& type : types) is_any |= has_type(value, type.string());
      if (!is_any) return false;
    }
    if (value.is_object()) return fits_object(schema, value);
    if (value.is_array()) return fits_array(schema, value);
    if (value.is_string()) return fits_string(schema, value.string());
    return !value.is_number() || fits_number(schema, value.number());
  }

  bool fits_object(const Json& schema, const Json& value) const {
    const Json properties = schema.value<Json>("properties", Json::object());
    const Json others = schema.value<Json>("additionalProperties", true);
    for (const auto& [name, member] : value.items()) {
      if (!fits(properties.contains(name) ? properties[name] : others, member)) return false;
    }
    const Json required = schema.value<Json>("required", Json::array());
    for (const Json& name : required) {
      if (!value.contains(name.string())) return false;
    }
    return true;
  }

  bool fits_array(const Json& schema, const Json& value) const {
    const auto count = static_cast<int64_t>(value.size());
    if (count < schema.value<int64_t>("minItems", 0) || count > schema.value<int64_t>("maxItems", INT64_MAX))
      return false;
    const Json first = schema.value<Json>("prefixItems", Json::array());
    const Json rest = schema.value<Json>("items", true);
    for (size_t i = 0; i < value.size(); ++i) {
      if (!fits(i < first.size() ? first[i] : rest, value[i])) return false;
    }
    return true;
  }

  static bool fits_string(const Json& schema, const std::string& value) {
    const std::u32string codes = code_points(value);
    const auto length = static_cast<int64_t>(codes.size());
    if (length < schema.value<int64_t>("minLength", 0)) return false;
    if (length > schema.value<int64_t>("maxLength", INT64_MAX)) return false;
    if (schema.contains("format") && !grammar::format_texts(schema["format"].string()).matches(codes)) return false;
    return !schema.contains("pattern") || grammar::compile_pattern(schema["pattern"].string()).matches(codes);
  }

  static bool fits_number(const Json& schema, double value) {
    const auto limit = [&](const char* keyword, double otherwise) { return schema.value<double>(keyword, otherwise); };
    return value >= limit("minimum", -INFINITY) && value <= limit("maximum", INFINITY) &&
           value > limit("exclusiveMinimum", -INFINITY) && value < limit("exclusiveMaximum", INFINITY);
  }

  const Json& root_;
};

}  // namespace attend::testing
