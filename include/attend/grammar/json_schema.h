#pragma once

#include <optional>

#include "attend/grammar/grammar.h"
#include "attend/io/json.h"

// JSON as a grammar. White space is limited, so that a model cannot write it for ever: see docs/structured-output.md.
namespace attend {

/// Any JSON object.
Grammar json_object_grammar();

/// The JSON texts that satisfy a JSON schema. Properties come in the order of the schema. The schema is untrusted
/// input. Throws FormatError, which names the keyword and its place, if the schema is malformed, allows no value, is
/// too large, or uses a keyword that is not supported.
Grammar json_schema_grammar(const Json& schema);

/// The grammar of OpenAI's "response_format": {"type": "json_object"} or {"type": "json_schema", "json_schema":
/// {"schema": …}}; nullopt for {"type": "text"} and null. Throws FormatError.
std::optional<Grammar> response_grammar(const Json& response_format);

}  // namespace attend
