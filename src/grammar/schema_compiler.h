#pragma once

#include <string>

#include "attend/io/json.h"
#include "grammar/json_rules.h"

namespace attend::grammar {

/// The rule of the JSON texts that satisfy a schema. `root` resolves references. Throws FormatError, which names the
/// keyword and its place, if the schema is malformed or uses a keyword that is not supported.
Symbol compile_schema(JsonRules& rules, const Json& root);

/// One schema that requires what both require. Throws FormatError if they cannot be merged. `path` is for messages.
Json merged_schemas(const Json& a, const Json& b, const std::string& path);

/// The texts of a string with this "format". Throws FormatError if it is not supported.
Dfa format_texts(const std::string& format);

/// Whether a keyword does not limit values, such as "description".
bool is_annotation(std::string_view keyword);

}  // namespace attend::grammar
