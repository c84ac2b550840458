#include "attend/grammar/json_schema.h"

#include "attend/base/error.h"
#include "grammar/schema_compiler.h"
#include "io/printable.h"

namespace attend {
namespace {

using grammar::JsonRules;
using grammar::RuleBuilder;
using grammar::Symbol;

/// A text may begin with a space, as the first token of many tokenizers does.
Grammar finished(RuleBuilder& builder, Symbol value) {
  return builder.finish(builder.any_of({{value}, {builder.byte(' '), value}}));
}

void check_fields(const Json& object, std::initializer_list<std::string_view> known, const char* name) {
  for (const auto& [key, value] : object.items()) {
    const bool is_known = std::find(known.begin(), known.end(), key) != known.end();
    require<FormatError>(is_known, name, ": the field ", in_quotes(key), " is not supported");
  }
}

}  // namespace

Grammar json_object_grammar() {
  RuleBuilder builder;
  JsonRules rules(builder);
  return finished(builder, rules.any_object());
}

Grammar json_schema_grammar(const Json& schema) {
  RuleBuilder builder;
  JsonRules rules(builder);
  return finished(builder, grammar::compile_schema(rules, schema));
}

std::optional<Grammar> response_grammar(const Json& response_format) {
  if (response_format.is_null()) return std::nullopt;
  const bool has_type =
      response_format.is_object() && response_format.contains("type") && response_format["type"].is_string();
  require<FormatError>(has_type, "response_format: expected an object with the string \"type\"");
  const std::string& type = response_format["type"].string();
  check_fields(response_format, {"type", "json_schema"}, "response_format");
  if (type == "text") return std::nullopt;
  if (type == "json_object") return json_object_grammar();
  require<FormatError>(type == "json_schema", "response_format: type must be text, json_object or json_schema, got ",
                       in_quotes(type));
  const Json given = response_format.value<Json>("json_schema", nullptr);
  require<FormatError>(given.is_object() && given.contains("schema"),
                       "response_format: json_schema must be an object with a \"schema\"");
  check_fields(given, {"name", "description", "schema", "strict"}, "response_format.json_schema");
  return json_schema_grammar(given["schema"]);
}

}  // namespace attend
