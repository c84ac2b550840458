#include "serve/fields.h"

#include <algorithm>
#include <charconv>

#include "io/json_depth.h"
#include "io/printable.h"

namespace attend {
namespace {
constexpr size_t kMostAblated = 4096;

[[noreturn]] void fail(const std::string& message) { throw ApiError(400, message); }

std::optional<int64_t> whole(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

int64_t number_field(const Json& json, const char* name, int64_t otherwise) {
  const auto found = json.find(name);
  if (found == json.end() || found->is_null()) return otherwise;
  if (!found->is_number_integer()) fail(std::string("expected a whole number for '") + name + "'");
  if (found->is_number_unsigned() && found->get<uint64_t>() > INT64_MAX) {
    fail(std::string("the number for '") + name + "' is too large");
  }
  return found->get<int64_t>();
}

/// An array of token ids; empty if it is absent.
std::vector<int32_t> ids_field(const Json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end() || found->is_null()) return {};
  const auto is_id = [](const Json& item) {
    return item.is_number_integer() && item.number() >= 0 && item.number() <= INT32_MAX;
  };
  if (!found->is_array() || found->empty() || !std::ranges::all_of(*found, is_id)) {
    fail(std::string("expected an array of token ids for '") + name + "'");
  }
  return found->get<std::vector<int32_t>>();
}

const Json& list_field(const Json& json, const char* name) {
  static const Json kNone = Json::array();
  const auto found = json.find(name);
  if (found == json.end() || found->is_null()) return kNone;
  if (!found->is_array() || found->size() > kMostAblated) fail(std::string("expected a list for '") + name + "'");
  for (const Json& item : *found) {
    if (!item.is_object()) fail(std::string("expected objects in '") + name + "'");
  }
  return *found;
}

}  // namespace

Json parse_body(const std::string& body) {
  if (!is_shallow_json(body)) fail("the JSON is nested too deep");
  Json json = Json::parse_or_null(body);
  if (!json.is_object()) fail("expected a JSON object");
  return json;
}

std::optional<std::string> optional_text(const Json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end() || found->is_null()) return std::nullopt;
  if (!found->is_string()) fail(std::string("expected text for '") + name + "'");
  return found->get<std::string>();
}

std::string text_field(const Json& json, const char* name) {
  const auto text = optional_text(json, name);
  if (!text) fail(std::string("expected '") + name + "'");
  return *text;
}

RunOptions run_options(const Json& json, bool is_picture) {
  RunOptions options{.target = optional_text(json, "target"),
                     .most_written = number_field(json, "length", 0),
                     .beam = number_field(json, "beam", 0),
                     .second = optional_text(json, "second"),
                     .ids = ids_field(json, "ids"),
                     .target_ids = ids_field(json, "target_ids"),
                     .heads = {},
                     .tokens = {}};
  if (options.most_written < 0 || options.most_written > 256) fail("'length' must be from 1 to 256");
  if (!options.ids.empty() && json.contains("text")) fail("expected 'text' or 'ids', got both");
  if (!options.target_ids.empty() && options.target) fail("expected 'target' or 'target_ids', got both");
  if (!is_picture && options.ids.empty()) options.text = text_field(json, "text");
  for (const Json& item : list_field(json, "steer")) {
    const auto strength = item.find("strength");
    if (strength != item.end() && !strength->is_number()) fail("expected a number for 'strength'");
    options.steer.push_back({.point = text_field(item, "point"),
                             .toward = text_field(item, "toward"),
                             .away = optional_text(item, "away").value_or(""),
                             .strength = strength == item.end() ? 1 : strength->number()});
  }
  const auto ablate = json.find("ablate");
  if (ablate == json.end() || ablate->is_null()) return options;
  if (!ablate->is_object()) fail("expected an object for 'ablate'");
  for (const Json& item : list_field(*ablate, "heads")) {
    options.heads.push_back({.attention = number_field(item, "attention", -1), .head = number_field(item, "head", -1)});
  }
  for (const Json& item : list_field(*ablate, "tokens")) {
    options.tokens.push_back({.side = number_field(item, "side", -1), .index = number_field(item, "index", -1)});
  }
  return options;
}

GenerationOptions generation_options(const Json& json) {
  GenerationOptions options{.text = text_field(json, "text"),
                            .beam = number_field(json, "beam", 1),
                            .length = number_field(json, "length", 64),
                            .candidates = number_field(json, "candidates", 5)};
  const auto temperature = json.find("temperature");
  if (temperature != json.end() && !temperature->is_null()) {
    if (!temperature->is_number()) fail("expected a number for 'temperature'");
    options.temperature = temperature->get<double>();
  }
  options.seed = static_cast<uint64_t>(number_field(json, "seed", 0));
  return options;
}

std::optional<int64_t> query_number(const Query& query, const char* name) {
  const auto found = query.find(name);
  if (found == query.end()) return std::nullopt;
  const auto value = whole(found->second);
  if (!value) fail(std::string("expected a whole number for '") + name + "', got " + in_quotes(found->second));
  return value;
}

int64_t required_number(const Query& query, const char* name) {
  const auto value = query_number(query, name);
  if (!value) fail(std::string("expected '") + name + "' in the address");
  return *value;
}

std::optional<int64_t> number_or_all(const Query& query, const char* name) {
  const auto found = query.find(name);
  return found == query.end() || found->second == "all" ? std::nullopt : query_number(query, name);
}

ArrayPart array_part(const Query& query) {
  ArrayPart part;
  const auto read = [&](const char* name, int64_t& first, std::optional<int64_t>& end) {
    const auto found = query.find(name);
    if (found == query.end()) return;
    const std::string_view text = found->second;
    const size_t colon = text.find(':');
    const auto from = whole(text.substr(0, colon));
    const auto until = colon == std::string_view::npos ? std::nullopt : whole(text.substr(colon + 1));
    if (!from || !until) fail(std::string("expected '") + name + "=a:b', got " + in_quotes(text));
    first = *from, end = *until;
  };
  read("rows", part.first_row, part.end_row);
  read("columns", part.first_column, part.end_column);
  return part;
}

}  // namespace attend
