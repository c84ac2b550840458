#include "text/tokenizers/json_fields.h"

#include "attend/base/error.h"
#include "io/json_depth.h"

namespace attend::text {
namespace {

void require_shallow(std::string_view text) {
  const std::optional<size_t> deep = deep_json_at(text);
  require<FormatError>(!deep, "JSON nested deeper than ", kDeepestJson, " at byte ", deep.value_or(0));
}

template <class T>
bool holds(const Json& value) {
  if constexpr (std::is_same_v<T, bool>) return value.is_boolean();
  if constexpr (std::is_same_v<T, std::string>) return value.is_string();
  if constexpr (std::is_same_v<T, int64_t>) return value.is_number_integer();
  if constexpr (std::is_same_v<T, double>) return value.is_number();
}

template <class T>
constexpr const char* name_of() {
  if constexpr (std::is_same_v<T, bool>) return "true or false";
  if constexpr (std::is_same_v<T, std::string>) return "a string";
  if constexpr (std::is_same_v<T, int64_t>) return "a whole number";
  if constexpr (std::is_same_v<T, double>) return "a number";
}

template <class T>
T checked(const Json& value, const char* key) {
  require<FormatError>(holds<T>(value), "\"", key, "\" must be ", name_of<T>(), ", got ", value.type_name());
  return value.get<T>();
}

}  // namespace

Json parse_json(std::string_view text) {
  require_shallow(text);
  try {
    return Json::parse(text);
  } catch (const JsonParseError& error) {
    throw FormatError("not valid JSON at byte " + std::to_string(error.byte));
  }
}

template <class T>
T field(const Json& object, const char* key, T fallback) {
  if (!object.is_object()) return fallback;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? fallback : checked<T>(*found, key);
}
template bool field(const Json&, const char*, bool);
template int64_t field(const Json&, const char*, int64_t);
template double field(const Json&, const char*, double);
template std::string field(const Json&, const char*, std::string);

const Json& required(const Json& object, const char* key) {
  require<FormatError>(object.is_object(), "expected an object with \"", key, "\", got ", object.type_name());
  const auto found = object.find(key);
  require<FormatError>(found != object.end(), "\"", key, "\" is missing");
  return *found;
}

std::string required_string(const Json& object, const char* key) {
  return checked<std::string>(required(object, key), key);
}
int64_t required_integer(const Json& object, const char* key) { return checked<int64_t>(required(object, key), key); }
std::string type_of(const Json& component) { return required_string(component, "type"); }

}  // namespace attend::text
