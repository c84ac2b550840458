#pragma once

#include <string>
#include <string_view>

#include "attend/io/json.h"

namespace attend::text {

/// Parses untrusted JSON. Throws FormatError if it is invalid or nested more than kDeepestJson levels.
Json parse_json(std::string_view text);

/// object[key] as a T, or `fallback` if it is absent or null. Throws FormatError, which names the key, if it has
/// another type.
template <class T>
T field(const Json& object, const char* key, T fallback);
/// object[key], which must exist and have the type. Throws FormatError, which names the key.
std::string required_string(const Json& object, const char* key);
int64_t required_integer(const Json& object, const char* key);
/// object[key], which must exist. Throws FormatError, which names the key.
const Json& required(const Json& object, const char* key);
/// The "type" of a component.
std::string type_of(const Json& component);

}  // namespace attend::text
