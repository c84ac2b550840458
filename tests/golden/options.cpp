#include "case.h"

namespace attend::golden {

Options::Options(const std::string& json) {
  values_ = nlohmann::json::parse(json, nullptr, false);
  require<FormatError>(values_.is_object(), "options: expected a JSON object, got ", json);
}

const nlohmann::json* Options::find(const std::string& key) {
  read_.insert(key);
  const auto found = values_.find(key);
  return found == values_.end() || found->is_null() ? nullptr : &*found;
}

bool Options::has(const std::string& key) { return find(key) != nullptr; }

double Options::number(const std::string& key, double otherwise) {
  const nlohmann::json* value = find(key);
  require<FormatError>(!value || value->is_number(), "options: ", key, " is not a number");
  return value ? value->get<double>() : otherwise;
}

int64_t Options::integer(const std::string& key, int64_t otherwise) {
  const double value = number(key, static_cast<double>(otherwise));
  require<FormatError>(value == static_cast<double>(static_cast<int64_t>(value)), "options: ", key,
                       " is not an integer");
  return static_cast<int64_t>(value);
}

bool Options::flag(const std::string& key, bool otherwise) {
  const nlohmann::json* value = find(key);
  require<FormatError>(!value || value->is_boolean(), "options: ", key, " is neither true nor false");
  return value ? value->get<bool>() : otherwise;
}

std::string Options::text(const std::string& key, const std::string& otherwise) {
  const nlohmann::json* value = find(key);
  require<FormatError>(!value || value->is_string(), "options: ", key, " is not a text");
  return value ? value->get<std::string>() : otherwise;
}

std::vector<double> Options::numbers(const std::string& key, std::vector<double> otherwise) {
  const nlohmann::json* value = find(key);
  if (!value) return otherwise;
  require<FormatError>(value->is_array(), "options: ", key, " is not a list");
  std::vector<double> result;
  for (const auto& item : *value) {
    require<FormatError>(item.is_number(), "options: ", key, " is not a list of numbers");
    result.push_back(item.get<double>());
  }
  return result;
}

void Options::require_integer(const std::string& key, int64_t expected) {
  const int64_t value = integer(key, expected);
  require<FormatError>(value == expected, "options: ", key, " is ", value, " but the tensors say ", expected);
}

std::vector<std::string> Options::unread() const {
  std::vector<std::string> result;
  for (const auto& [key, value] : values_.items()) {
    const bool off = value.is_null() || value == false;
    if (!off && !read_.contains(key)) result.push_back(key);
  }
  return result;
}

}  // namespace attend::golden
