#include "serve/request_fields.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "io/json_depth.h"
#include "io/printable.h"
#include "serve/http/form.h"

namespace attend {
namespace {

const char* type_of(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

Json or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

std::string shown(double value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

/// A whole number, also one that is written as 3.0; nullopt for other values and beyond 64 bits.
std::optional<int64_t> whole_of(const Json& value) {
  if (!value.is_number()) return std::nullopt;
  const double number = value.number();
  const bool is_whole = value.is_number_integer() || (std::abs(number) < 0x1p63 && number == std::floor(number));
  if (!is_whole) return std::nullopt;
  const int64_t result = value.integer();
  return (result < 0) == (number < 0) ? std::optional(result) : std::nullopt;
}

}  // namespace

std::string error_json(const RequestError& error) {
  std::string message = error.what();
  std::ranges::replace(message, '\n', ' ');
  return Json{{"error",
               {{"message", message},
                {"type", type_of(error.status)},
                {"param", or_null(error.param)},
                {"code", or_null(error.code)}}}}
      .dump();
}

HttpResponse error_response(const RequestError& error) {
  HttpResponse response{.status = error.status, .body = error_json(error)};
  if (error.status == 429 || error.status == 503) response.headers.push_back({"Retry-After", "1"});
  return response;
}

HttpResponse error_response(const std::string& path, const RequestError& error) {
  HttpResponse response = error_response(error);
  if (path != "/translate" && path != "/languages") return response;
  std::string message = error.what();
  std::ranges::replace(message, '\n', ' ');
  response.body = Json{{"error", message}}.dump();
  return response;
}

RequestFields::RequestFields(const std::string& body) {
  if (!is_shallow_json(body)) throw RequestError(400, "the JSON is nested too deep");
  json_ = Json::parse_or_null(body);
  if (!json_.is_object()) throw RequestError(400, "expected a JSON object in the request's body");
}

RequestFields RequestFields::json_or_form(const HttpRequest& request) {
  const std::string& body = request.body;
  const size_t begin = body.find_first_not_of(" \t\r\n");
  const std::string_view content_type = request.header("content-type");
  const std::string type = ascii_lower(trimmed(content_type.substr(0, content_type.find(';'))));
  const bool is_multipart = type == "multipart/form-data";
  // curl -d declares any body as a form, JSON too.
  const bool is_form =
      is_multipart || (type == "application/x-www-form-urlencoded" && begin != std::string::npos && body[begin] != '{');
  if (!is_form) return RequestFields(body);
  RequestFields fields;
  fields.json_ = Json::object();
  for (FormField& field : is_multipart ? read_multipart(body, content_type) : read_form_body(body)) {
    fields.add_form_field(std::move(field.name), std::move(field.value));
  }
  return fields;
}

/// Numbers are digits; a repeated `q` is a list.
void RequestFields::add_form_field(std::string name, std::string value) {
  constexpr std::string_view kNumber = "alternatives", kList = "q";
  if (valid_utf8_prefix(name) != name.size()) throw RequestError(400, "a name in the form is not valid UTF-8");
  if (valid_utf8_prefix(value) != value.size()) fail(name, "is not valid UTF-8");
  const bool is_number =
      !value.empty() && value.size() < 10 && std::ranges::all_of(value, [](char c) { return c >= '0' && c <= '9'; });
  Json item = is_number && name == kNumber ? Json(std::stoll(value)) : Json(std::move(value));
  const Json* before = find(name);
  known_.erase(name);
  if (before == nullptr) {
    json_[name] = std::move(item);
  } else if (name != kList) {
    fail(name, "is given twice");
  } else if (before->is_array()) {
    json_[name].push_back(std::move(item));
  } else {
    json_[name] = Json::array({*before, std::move(item)});
  }
}

RequestFields::RequestFields(Json object, std::string name) : json_(std::move(object)), prefix_(std::move(name)) {
  if (!json_.is_object()) throw RequestError(400, "expected an object for '" + prefix_ + "'", prefix_);
  prefix_ += '.';
}

void RequestFields::fail(const std::string& name, const std::string& message) const {
  throw RequestError(400, "'" + full(name) + "' " + message, full(name));
}

const Json* RequestFields::find(const std::string& name) {
  known_.insert(name);
  const auto found = json_.find(name);
  return found == json_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<std::string> RequestFields::text(const std::string& name) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) fail(name, "must be a string");
  return value->string();
}

std::string RequestFields::required_text(const std::string& name) {
  auto value = text(name);
  if (!value) fail(name, "is missing");
  return *std::move(value);
}

std::optional<bool> RequestFields::flag(const std::string& name) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) fail(name, "must be true or false");
  return value->boolean();
}

std::optional<double> RequestFields::number(const std::string& name, NumberRange range) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) fail(name, "must be a number");
  const double number = value->number();
  if (!(number >= range.least && number <= range.most)) {
    fail(name, "must be from " + shown(range.least) + " to " + shown(range.most) + ", got " + shown(number));
  }
  return number;
}

std::optional<int64_t> RequestFields::whole(const std::string& name, int64_t least, int64_t most) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  const auto number = whole_of(*value);
  if (!number) fail(name, "must be a whole number");
  if (*number < least || *number > most) {
    fail(name,
         "must be from " + std::to_string(least) + " to " + std::to_string(most) + ", got " + std::to_string(*number));
  }
  return number;
}

std::vector<std::string> RequestFields::texts(const std::string& name, size_t most) {
  const Json* value = find(name);
  if (value == nullptr) return {};
  if (value->is_string()) return {value->string()};
  if (!value->is_array()) fail(name, "must be a string or an array of strings");
  if (value->size() > most) fail(name, "may have at most " + std::to_string(most) + " strings");
  std::vector<std::string> result;
  for (const Json& item : *value) {
    if (!item.is_string()) fail(name, "must be a string or an array of strings");
    result.push_back(item.string());
  }
  return result;
}

std::vector<int32_t> RequestFields::ids(const std::string& name, const Json& list, int64_t vocab_size) const {
  std::vector<int32_t> ids;
  for (const Json& item : list) {
    if (!item.is_number_integer() || item.number() < 0 || item.number() >= static_cast<double>(vocab_size)) {
      fail(name, "must have token ids from 0 to " + std::to_string(vocab_size - 1));
    }
    ids.push_back(static_cast<int32_t>(item.integer()));
  }
  if (ids.empty()) fail(name, "has an empty array");
  return ids;
}

std::vector<int64_t> RequestFields::places(const std::string& name, int64_t most) {
  constexpr size_t kMost = 4096;
  const Json* value = find(name);
  if (value == nullptr || (value->is_string() && value->string() == "all")) return {};
  const Json list = value->is_array() ? *value : Json::array({*value});
  if (list.size() > kMost) fail(name, "has too many numbers");
  std::vector<int64_t> result;
  for (const Json& item : list) {
    const auto number = whole_of(item);
    if (!number) fail(name, "must be \"all\", a whole number or an array of whole numbers");
    if (*number < 0 || *number > most) {
      fail(name, "must be from 0 to " + std::to_string(most) + ", got " + std::to_string(*number));
    }
    result.push_back(*number);
  }
  if (result.empty()) fail(name, "is empty");
  std::ranges::sort(result);
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

void RequestFields::refuse_others() const {
  for (const auto& [name, value] : json_.items()) {
    if (value.is_null() || known_.contains(name)) continue;
    const std::string shown_name = in_quotes(full(name));
    throw RequestError(400, shown_name + " is not supported", full(name), "unsupported_parameter");
  }
}

}  // namespace attend
