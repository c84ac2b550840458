#include "text/tokenizers/text_template.h"

#include <algorithm>

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

/// Reads the id from a pair such as ["[SEP]", 102].
int32_t id_of_pair(const Json& json, const char* key) {
  const Json& pair = required(json, key);
  require<FormatError>(pair.is_array() && pair.size() == 2, "\"", key, "\" must be a pair of a token and its id");
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

using Kind = PairPart::Kind;

PairTemplate pair_from_list(const Json& json) {
  const auto found = json.find("pair");
  if (found == json.end() || !found->is_array()) return {};
  const Json& specials = required(json, "special_tokens");
  PairTemplate result;
  const auto type_in = [](const Json& item) { return field<int64_t>(item, "type_id", 0) == 0 ? 0 : 1; };
  for (const Json& item : *found) {
    if (item.contains("Sequence")) {
      const bool is_first = field<std::string>(item["Sequence"], "id", "A") == "A";
      result.push_back({is_first ? Kind::first_text : Kind::second_text, kNone, type_in(item["Sequence"])});
      continue;
    }
    const Json& special = required(item, "SpecialToken");
    const std::string name = required_string(special, "id");
    for (const Json& id : required(required(specials, name.c_str()), "ids")) {
      result.push_back({Kind::token, checked_id(id), type_in(special)});
    }
    require<FormatError>(result.size() <= kLongest, "the template adds more than ", kLongest, " tokens");
  }
  return result;
}

}  // namespace

PairTemplate usual_pair_template(const SpecialTokens& special) {
  PairTemplate result;
  const auto add = [&](int32_t id, int32_t type) {
    if (id >= 0) result.push_back({Kind::token, id, type});
  };
  add(special.begin, 0);
  result.push_back({Kind::first_text, kNone, 0});
  add(special.end, 0);
  result.push_back({Kind::second_text, kNone, 1});
  add(special.end, 1);
  return result;
}

PairTemplate make_pair_template(const Json& json) {
  if (json.is_null()) return {};
  const std::string type = type_of(json);
  if (type == "TemplateProcessing") return pair_from_list(json);
  if (type == "Sequence") {
    for (const Json& step : required(json, "processors")) {
      if (PairTemplate found = make_pair_template(step); !found.empty()) return found;
    }
    return {};
  }
  if (type != "BertProcessing" && type != "RobertaProcessing") return {};
  PairTemplate result = usual_pair_template({.begin = id_of_pair(json, "cls"), .end = id_of_pair(json, "sep")});
  if (type == "RobertaProcessing") {  // two end tokens between the texts, and type 0 throughout
    result.insert(result.begin() + 2, result[2]);
    for (PairPart& part : result) part.type = 0;
  }
  return result;
}

EncodedPair fill_pair(const PairTemplate& around, std::vector<int32_t> first, std::vector<int32_t> second,
                      int64_t longest) {
  const auto tokens = std::ranges::count(around, Kind::token, &PairPart::kind);
  EncodedPair result;
  while (std::ssize(first) + std::ssize(second) + tokens > longest && !(first.empty() && second.empty())) {
    (first.size() > second.size() ? first : second).pop_back();
    result.is_cut = true;
  }
  for (const PairPart& part : around) {
    const std::vector<int32_t> token{part.id};
    const auto& ids = part.kind == Kind::token ? token : part.kind == Kind::first_text ? first : second;
    result.ids.insert(result.ids.end(), ids.begin(), ids.end());
    result.types.insert(result.types.end(), ids.size(), part.type);
  }
  return result;
}

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
  if (type == "ByteLevel") return {kNone};  // changes offsets only
  if (type == "TemplateProcessing") return from_list(json);
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    return {id_of_pair(json, "cls"), kNone, id_of_pair(json, "sep")};
  }
  if (type == "Sequence") return sequence(json);
  throw FormatError("unknown post-processor " + in_quotes(type));
}

}  // namespace attend::text

namespace attend {

EncodedPair Tokenizer::encode_pair(std::string_view a, std::string_view b, int64_t longest) const {
  return text::fill_pair(text::usual_pair_template(special()), encode(a), encode(b), longest);
}

}  // namespace attend
