#include "text/text_template.h"

#include "attend/base/error.h"
#include "io/printable.h"

namespace attend::text {
namespace {

constexpr size_t kLongest = 1024;

int32_t checked_id(const Json& json) {
  const bool fits = json.is_number_integer() && json.get<int64_t>() >= 0 && json.get<int64_t>() < kMostTokens;
  require<FormatError>(fits, "the id of a special token must be a whole number from 0 to ", kMostTokens - 1);
  return static_cast<int32_t>(json.get<int64_t>());
}

TextTemplate from_list(const Json& json) {
  const Json& specials = required(json, "special_tokens");
  TextTemplate result;
  for (const Json& item : required(json, "single")) {
    if (item.contains("Sequence")) {
      result.push_back(kNone);
      continue;
    }
    const std::string name = required_string(required(item, "SpecialToken"), "id");
    for (const Json& id : required(required(specials, name.c_str()), "ids")) result.push_back(checked_id(id));
    require<FormatError>(result.size() <= kLongest, "the template adds more than ", kLongest, " tokens");
  }
  return result;
}

/// ["[SEP]", 102]
int32_t id_of_pair(const Json& json, const char* key) {
  const Json& pair = required(json, key);
  require<FormatError>(pair.is_array() && pair.size() == 2, "\"", key, "\" must be a token and its id");
  return checked_id(pair[1]);
}

TextTemplate sequence(const Json& json) {
  TextTemplate result{kNone};
  for (const Json& step : required(json, "processors")) {
    result = fill(make_template(step), result);
    require<FormatError>(result.size() <= kLongest, "the template adds more than ", kLongest, " tokens");
  }
  return result;
}

}  // namespace

std::vector<int32_t> fill(const TextTemplate& around, std::span<const int32_t> ids) {
  std::vector<int32_t> out;
  for (const int32_t id : around) {
    if (id == kNone)
      out.insert(out.end(), ids.begin(), ids.end());
    else
      out.push_back(id);
  }
  return out;
}

TextTemplate make_template(const Json& json) {
  if (json.is_null()) return {kNone};
  const std::string type = type_of(json);
  if (type == "ByteLevel") return {kNone};  // moves offsets only
  if (type == "TemplateProcessing") return from_list(json);
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    return {id_of_pair(json, "cls"), kNone, id_of_pair(json, "sep")};
  }
  if (type == "Sequence") return sequence(json);
  throw FormatError("unknown post-processor " + in_quotes(type));
}

}  // namespace attend::text
