#pragma once

#include <string>
#include <string_view>

#include "attend/io/json.h"

namespace attend::text {

/// Parses the JSON of outside bytes; throws FormatError for damage and for nesting deeper than any of our files has.
Json parse_json(std::string_view text);

/// object[key] as a T, or `fallback` where it is absent or null; throws FormatError naming the key if it is no T.
template <class T>
T field(const Json& object, const char* key, T fallback);
/// The same for what must be there.
std::string required_string(const Json& object, const char* key);
int64_t required_integer(const Json& object, const char* key);
/// object[key], which must be there.
const Json& required(const Json& object, const char* key);
/// The "type" of a component.
std::string type_of(const Json& component);

}  // namespace attend::text
