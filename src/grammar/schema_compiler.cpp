#include "grammar/schema_compiler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <unordered_map>

#include "attend/base/error.h"
#include "io/printable.h"

namespace attend::grammar {
namespace {

constexpr int kDeepestSchema = 100;     // schemas inside each other, references included
constexpr size_t kMostSchemas = 5'000;  // after merging

constexpr std::array kObjectKeywords{"properties", "required", "additionalProperties", "unevaluatedProperties"};
constexpr std::array kArrayKeywords{"items", "prefixItems", "minItems", "maxItems"};
constexpr std::array kStringKeywords{"minLength", "maxLength", "pattern", "format"};
constexpr std::array kNumberKeywords{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"};
constexpr std::array kOtherKeywords{"type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref"};
constexpr std::array kTypes{"object", "array", "string", "number", "integer", "boolean", "null"};

template <class Names>
bool is_one_of(const Names& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

bool limits_values(std::string_view keyword) {
  return is_one_of(kObjectKeywords, keyword) || is_one_of(kArrayKeywords, keyword) ||
         is_one_of(kStringKeywords, keyword) || is_one_of(kNumberKeywords, keyword);
}

bool has_assertions(const Json& schema) {
  for (const auto& [key, value] : schema.items()) {
    if (!is_annotation(key)) return true;
  }
  return false;
}

Json without(const Json& schema, std::string_view keyword) {
  Json result = schema;
  result.erase(keyword);
  return result;
}

/// A value in a message: a string without its own quotes.
std::string shown(const Json& value) { return in_quotes(value.is_string() ? value.string() : value.dump()); }

bool is_whole(const Json& value) {
  return value.is_number_integer() || (value.is_number() && value.number() == std::floor(value.number()));
}

bool has_type(const Json& value, std::string_view type) {
  if (type == "integer") return is_whole(value);
  return value.type_name() == type;
}

class SchemaCompiler {
 public:
  SchemaCompiler(JsonRules& rules, const Json& root) : rules_(rules), root_(root) {}

  Symbol compile(const Json& schema, const std::string& path) {
    if (schema.is_boolean()) {
      if (!schema.boolean()) fail(path, "the schema false allows no value");
      return rules_.value();
    }
    if (!schema.is_object()) fail(path, "expected an object or a boolean, got ", schema.type_name());
    if (const auto known = known_.find(&schema); known != known_.end()) return known->second;
    if (known_.size() >= kMostSchemas) fail(path, "the schema is too large: more than ", kMostSchemas, " schemas");
    if (++depth_ > kDeepestSchema) fail(path, "more than ", kDeepestSchema, " schemas inside each other");
    const Symbol result = rules_.builder.rule();
    known_.emplace(&schema, result);  // before its contents, which may refer to it
    for (const Symbol one : alternatives(schema, path)) rules_.builder.add(result, {one});
    --depth_;
    return result;
  }

 private:
  using Symbols = std::vector<Symbol>;

  template <class... Parts>
  [[noreturn]] static void fail(const std::string& path, const Parts&... parts) {
    throw_error<FormatError>("schema: ", path, ": ", parts...);
  }

  Symbol compile_owned(Json schema, const std::string& path) {
    // Equal schemas share a rule, so that merging a schema with itself comes to an end.
    const auto [found, is_new] = owned_.try_emplace(schema.dump(), std::move(schema));
    return compile(found->second, path);
  }

  Symbols alternatives(const Json& schema, const std::string& path) {
    check_keywords(schema, path);
    if (schema.contains("$ref")) return {reference(schema, path)};
    if (schema.contains("allOf")) return {all_of(schema, path)};
    if (schema.contains("anyOf")) return any_of(schema, "anyOf", path);
    if (schema.contains("oneOf")) return any_of(schema, "oneOf", path);
    if (schema.contains("const")) return constants(schema, "const", Json::array({schema["const"]}), path);
    if (schema.contains("enum")) return constants(schema, "enum", schema["enum"], path);
    Symbols result;
    for (const std::string& type : types(schema, path)) result.push_back(of_type(type, schema, path));
    if (result.empty()) result.push_back(rules_.value());
    return result;
  }

  static void check_keywords(const Json& schema, const std::string& path) {
    for (const auto& [key, value] : schema.items()) {
      const bool is_known = limits_values(key) || is_one_of(kOtherKeywords, key) || is_annotation(key);
      if (!is_known) fail(path, "the keyword ", in_quotes(key), " is not supported");
    }
  }

  const Json& resolve(const Json& reference, const std::string& path) const {
    if (!reference.is_string()) fail(path, "\"$ref\" must be a string");
    const std::string& text = reference.string();
    if (text != "#" && !text.starts_with("#/")) {
      fail(path, "the reference ", in_quotes(text), " is not supported: it must begin with #/");
    }
    const Json* at = &root_;
    for (size_t begin = 2; begin <= text.size() && text.size() > 1;) {
      const size_t end = std::min(text.find('/', begin), text.size());
      at = member(*at, unescaped(text.substr(begin, end - begin)));
      if (at == nullptr) fail(path, "the reference ", in_quotes(text), " leads nowhere");
      begin = end + 1;
    }
    return *at;
  }

  static const Json* member(const Json& value, const std::string& name) {
    if (value.is_object()) return value.contains(name) ? &value[name] : nullptr;
    const bool is_index = value.is_array() && !name.empty() && name.size() < 8 &&
                          std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
    if (!is_index) return nullptr;
    const auto index = static_cast<size_t>(std::stoll(name));
    return index < value.size() ? &value[index] : nullptr;
  }

  /// A part of a JSON pointer: ~1 is /, ~0 is ~.
  static std::string unescaped(std::string part) {
    for (const auto& [from, to] : {std::pair{"~1", '/'}, std::pair{"~0", '~'}}) {
      for (size_t at = part.find(from); at != std::string::npos; at = part.find(from, at + 1)) {
        part.replace(at, 2, 1, to);
      }
    }
    return part;
  }

  Symbol reference(const Json& schema, const std::string& path) {
    const Json& target = resolve(schema["$ref"], path);
    const Json rest = without(schema, "$ref");
    if (!has_assertions(rest)) return compile(target, schema["$ref"].string());
    return compile_owned(merged_schemas(target, rest, path), path);
  }

  Symbol all_of(const Json& schema, const std::string& path) {
    const Json& parts = list(schema, "allOf", path);
    Json result = without(schema, "allOf");
    for (const Json& part : parts) result = merged_schemas(result, followed(part, path), path);
    return compile_owned(std::move(result), path);
  }

  /// A schema without a reference at its top.
  Json followed(Json schema, const std::string& path) const {
    for (int i = 0; schema.is_object() && schema.contains("$ref"); ++i) {
      if (i == kDeepestSchema) fail(path, "a reference leads to itself");
      schema = merged_schemas(resolve(schema["$ref"], path), without(schema, "$ref"), path);
    }
    return schema;
  }

  Symbols any_of(const Json& schema, const char* keyword, const std::string& path) {
    if (schema.contains("anyOf") && schema.contains("oneOf")) fail(path, "\"anyOf\" beside \"oneOf\" is not supported");
    const Json& branches = list(schema, keyword, path);
    const Json base = without(schema, keyword);
    const bool is_merged = has_assertions(base);
    Symbols result;
    for (size_t i = 0; i < branches.size(); ++i) {
      const std::string own = path + "/" + keyword + "/" + std::to_string(i);
      const Json& branch = branches[i];
      result.push_back(is_merged ? compile_owned(merged_schemas(base, followed(branch, own), own), own)
                                 : compile(branch, own));
    }
    return result;
  }

  static const Json& list(const Json& schema, const char* keyword, const std::string& path) {
    const Json& value = schema[keyword];
    if (!value.is_array() || value.empty()) fail(path, "\"", keyword, "\" must be a list that is not empty");
    return value;
  }

  Symbols constants(const Json& schema, const char* keyword, const Json& values, const std::string& path) {
    if (!values.is_array() || values.empty()) fail(path, "\"enum\" must be a list that is not empty");
    for (const auto& [key, value] : schema.items()) {
      const bool fits = key == keyword || key == "type" || is_annotation(key);
      if (!fits) fail(path, "\"", keyword, "\" beside \"", key, "\" is not supported");
    }
    const std::vector<std::string> allowed = types(schema, path);
    Symbols result;
    for (const Json& value : values) {
      const bool fits =
          allowed.empty() || std::ranges::any_of(allowed, [&](auto& type) { return has_type(value, type); });
      if (fits) result.push_back(rules_.builder.any_of({rules_.builder.text(value.dump())}));
    }
    if (result.empty()) fail(path, "no value of \"", keyword, "\" has the type of the schema");
    return result;
  }

  /// The types of a schema. Without "type", those that its keywords are about; none if any value is allowed.
  static std::vector<std::string> types(const Json& schema, const std::string& path) {
    std::vector<std::string> result;
    if (schema.contains("type")) {
      const Json& given = schema["type"];
      for (const Json& type : given.is_array() ? given : Json::array({given})) {
        if (!type.is_string() || !is_one_of(kTypes, type.string())) fail(path, "unknown type ", shown(type));
        if (!is_one_of(result, type.string())) result.push_back(type.string());
      }
      if (result.empty()) fail(path, "\"type\" is empty");
      return result;
    }
    const auto has = [&](const auto& keywords) {
      return std::ranges::any_of(keywords, [&](const char* keyword) { return schema.contains(keyword); });
    };
    if (has(kObjectKeywords)) result.emplace_back("object");
    if (has(kArrayKeywords)) result.emplace_back("array");
    if (has(kStringKeywords)) result.emplace_back("string");
    if (has(kNumberKeywords)) result.emplace_back("number");
    return result;
  }

  Symbol of_type(const std::string& type, const Json& schema, const std::string& path) {
    RuleBuilder& builder = rules_.builder;
    if (type == "object") return object(schema, path);
    if (type == "array") return array(schema, path);
    if (type == "string") return string(schema, path);
    if (type == "integer") return integer(schema, path);
    if (type == "boolean") return builder.any_of({builder.text("true"), builder.text("false")});
    if (type == "null") return builder.any_of({builder.text("null")});
    for (const char* keyword : kNumberKeywords) {
      if (schema.contains(keyword)) fail(path, "\"", keyword, "\" is supported only for the type integer");
    }
    return rules_.number();
  }

  Symbol object(const Json& schema, const std::string& path) {
    const Json none = Json::object();
    const Json& properties = schema.contains("properties") ? schema["properties"] : none;
    if (!properties.is_object()) fail(path, "\"properties\" must be an object");
    std::set<std::string> required;
    if (schema.contains("required")) {
      if (!schema["required"].is_array()) fail(path, "\"required\" must be a list of names");
      for (const Json& name : schema["required"]) {
        if (!name.is_string()) fail(path, "\"required\" must be a list of names");
        required.insert(name.string());
      }
    }
    std::vector<PropertyRule> rules;
    for (const auto& [name, value] : properties.items()) {
      const Symbol own = compile(value, path + "/properties/" + name);
      rules.push_back({name, own, required.erase(name) > 0});
    }
    const std::optional<Symbol> additional = additional_properties(schema, path);
    for (const std::string& name : required) {  // without a schema of its own
      if (!additional && is_closed(schema)) fail(path, "the required property ", in_quotes(name), " is not allowed");
      rules.push_back({name, additional.value_or(rules_.value()), true});
    }
    return rules_.object(rules, additional);
  }

  static bool is_closed(const Json& schema) {
    return schema.contains("additionalProperties") || schema.contains("unevaluatedProperties");
  }

  /// The rule of properties without a schema of their own. By default an object that lists properties has no others.
  std::optional<Symbol> additional_properties(const Json& schema, const std::string& path) {
    if (schema.contains("unevaluatedProperties") && schema["unevaluatedProperties"] != Json(false)) {
      fail(path, "\"unevaluatedProperties\" must be false");
    }
    if (schema.contains("additionalProperties")) {
      const Json& value = schema["additionalProperties"];
      if (value == Json(false)) return std::nullopt;
      return compile(value, path + "/additionalProperties");
    }
    if (schema.contains("properties") || schema.contains("unevaluatedProperties")) return std::nullopt;
    return rules_.value();
  }

  static std::optional<int64_t> count(const Json& schema, const char* keyword, const std::string& path) {
    if (!schema.contains(keyword)) return std::nullopt;
    const Json& value = schema[keyword];
    const bool is_count = is_whole(value) && value.number() >= 0 && value.number() <= 1e9;
    if (!is_count) fail(path, "\"", keyword, "\" must be a whole number from 0 to 1000000000");
    return value.integer();
  }

  Symbol array(const Json& schema, const std::string& path) {
    ItemRules items{.least = count(schema, "minItems", path).value_or(0), .most = count(schema, "maxItems", path)};
    if (schema.contains("prefixItems")) {
      const Json& first = list(schema, "prefixItems", path);
      for (size_t i = 0; i < first.size(); ++i) {
        items.first.push_back(compile(first[i], path + "/prefixItems/" + std::to_string(i)));
      }
    }
    if (!schema.contains("items")) {
      items.rest = rules_.value();
    } else if (schema["items"] != Json(false)) {
      items.rest = compile(schema["items"], path + "/items");
    }
    return located(path, [&] { return rules_.array(items); });
  }

  /// The result of `work`, whose errors get the place in the schema.
  template <class Work>
  static Symbol located(const std::string& path, const Work& work) {
    try {
      return work();
    } catch (const FormatError& error) {
      fail(path, error.what());
    }
  }

  Symbol string(const Json& schema, const std::string& path) {
    const int64_t least = count(schema, "minLength", path).value_or(0);
    const std::optional<int64_t> most = count(schema, "maxLength", path);
    if (most && *most < least) fail(path, "\"maxLength\" is less than \"minLength\"");
    const bool has_pattern = schema.contains("pattern"), has_format = schema.contains("format");
    if (has_pattern && has_format) fail(path, "\"pattern\" beside \"format\" is not supported");
    if (!has_pattern && !has_format) return located(path, [&] { return rules_.string(least, most); });
    const Json& text = schema[has_pattern ? "pattern" : "format"];
    if (!text.is_string()) fail(path, "\"pattern\" and \"format\" must be strings");
    return located(path, [&] {
      Dfa dfa = has_pattern ? compile_pattern(text.string()) : format_texts(text.string());
      if (least > 0 || most) dfa = with_length(dfa, least, most);
      return rules_.string(dfa);
    });
  }

  Symbol integer(const Json& schema, const std::string& path) {
    int64_t least = -kLargestInteger, most = kLargestInteger;
    const auto limit = [&](const char* keyword, bool is_lower, bool is_exclusive) {
      if (!schema.contains(keyword)) return;
      const Json& value = schema[keyword];
      if (!value.is_number()) fail(path, "\"", keyword, "\" must be a number");
      const auto largest = static_cast<double>(kLargestInteger);
      const double number = value.number();
      int64_t whole = 0;
      if (number <= -largest || number >= largest) {
        const bool is_useless = is_lower ? number < 0 : number > 0;  // all integers are within it
        if (!is_useless) fail(path, "\"", keyword, "\" is out of range");
        return;
      }
      if (value.is_number_integer()) {
        whole = value.integer() + (is_exclusive ? is_lower ? 1 : -1 : 0);
      } else if (is_lower) {
        whole = static_cast<int64_t>(is_exclusive ? std::floor(number) + 1 : std::ceil(number));
      } else {
        whole = static_cast<int64_t>(is_exclusive ? std::ceil(number) - 1 : std::floor(number));
      }
      is_lower ? void(least = std::max(least, whole)) : void(most = std::min(most, whole));
    };
    limit("minimum", true, false);
    limit("exclusiveMinimum", true, true);
    limit("maximum", false, false);
    limit("exclusiveMaximum", false, true);
    if (schema.contains("multipleOf") && schema["multipleOf"] != Json(1)) {
      fail(path, "\"multipleOf\" is not supported");
    }
    if (least > most) fail(path, "no integer is from ", least, " to ", most);
    return rules_.integer(least, most);
  }

  JsonRules& rules_;
  const Json& root_;
  std::map<std::string, Json> owned_;  // merged schemas by their text
  std::unordered_map<const Json*, Symbol> known_;
  int depth_ = 0;
};

}  // namespace

Symbol compile_schema(JsonRules& rules, const Json& root) { return SchemaCompiler(rules, root).compile(root, "#"); }

}  // namespace attend::grammar
