#include "hub/hub_config.h"

#include <array>
#include <cmath>
#include <filesystem>

#include "attend/io/files.h"
#include "io/json_depth.h"
#include "io/printable.h"

namespace attend::hub {
namespace {

constexpr int64_t kMostBytes = 16 << 20;
constexpr size_t kMostLabels = 1 << 20;

Json parsed(std::string_view text, const std::string& file) {
  require<FormatError>(is_shallow_json(text), file, ": the JSON is nested too deep");
  Json json = Json::parse_or_null(text);
  require<FormatError>(json.is_object(), file, ": expected a JSON object");
  return json;
}

/// The value in one line, cut between two characters.
std::string shown(const Json& value) {
  const std::string text = value.dump().substr(0, 60);
  return text.substr(0, valid_utf8_prefix(text));
}

std::string bound(double value) {
  std::ostringstream text;
  text.precision(12);
  text << value;
  return text.str();
}

}  // namespace

HubConfig::HubConfig(std::string_view text, std::string file) : json_(parsed(text, file)), file_(std::move(file)) {}

HubConfig HubConfig::read(const std::string& folder, const std::string& name) {
  const std::string path = folder + "/" + name;
  return HubConfig(std::filesystem::exists(path) ? read_file(path, kMostBytes) : "{}", path);
}

std::string HubConfig::architecture() const {
  const std::vector<std::string> all = texts("architectures");
  return all.empty() ? "" : all.front();
}

const Json* HubConfig::find(const char* key) const {
  reads_->keys.insert(key);
  const auto found = json_.find(key);
  return found == json_.end() || found->is_null() ? nullptr : &*found;
}

bool HubConfig::has(const char* key) const { return find(key) != nullptr; }

void HubConfig::refuse(const std::string& what) const { throw FormatError(file_ + ": " + what); }

void HubConfig::wrong(const char* key, const std::string& expected, const Json& got) const {
  refuse(in_quotes(key) + " must be " + expected + ", got " + shown(got));
}

int64_t HubConfig::size(const char* key, double most) const {
  if (!has(key)) refuse(in_quotes(key) + " is missing");
  return size(key, most, 0);
}

int64_t HubConfig::size(const char* key, double most, int64_t otherwise) const {
  const int64_t value = count(key, most, otherwise);
  if (has(key) && value < 1) wrong(key, "a whole number from 1 to " + bound(most), *find(key));
  return value;
}

int64_t HubConfig::count(const char* key, double most, int64_t otherwise) const {
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  const bool fits = value->is_number_integer() && value->get<double>() >= 0 && value->get<double>() <= most;
  if (!fits) wrong(key, "a whole number from 0 to " + bound(most), *value);
  return value->get<int64_t>();
}

int32_t HubConfig::token_of(const char* key, const Json& value) const {
  const bool fits = value.is_number_integer() && value.get<double>() >= -1 && value.get<double>() < kMostVocab;
  if (!fits) wrong(key, "a token id", value);
  return value.get<int32_t>();
}

int32_t HubConfig::token(const char* key) const {
  const Json* value = find(key);
  return value == nullptr ? -1 : token_of(key, *value);
}

std::vector<int32_t> HubConfig::tokens(const char* key) const {
  const Json* value = find(key);
  std::vector<int32_t> result;
  if (value == nullptr) return result;
  if (!value->is_array()) {
    if (token_of(key, *value) >= 0) result.push_back(token_of(key, *value));
    return result;
  }
  for (const Json& one : *value) result.push_back(token_of(key, one));
  return result;
}

double HubConfig::number(const char* key, double otherwise, double least, double most) const {
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  const bool fits = value->is_number() && value->get<double>() >= least && value->get<double>() <= most;
  if (!fits) {
    wrong(key, "a number from " + bound(least) + (most < kNoLimit ? " to " + bound(most) : ""), *value);
  }
  return value->get<double>();
}

bool HubConfig::flag(const char* key, bool otherwise) const {
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) wrong(key, "true or false", *value);
  return value->get<bool>();
}

std::string HubConfig::text(const char* key, const std::string& otherwise) const {
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_string()) wrong(key, "a string", *value);
  return value->get<std::string>();
}

std::vector<std::string> HubConfig::texts(const char* key) const {
  const Json* value = find(key);
  if (value == nullptr) return {};
  const bool fits = value->is_array() && std::ranges::all_of(*value, [](const Json& one) { return one.is_string(); });
  if (!fits) wrong(key, "a list of strings", *value);
  return value->get<std::vector<std::string>>();
}

Activation HubConfig::activation(const char* key, const std::string& otherwise) const {
  struct Name {
    const char* theirs;
    Activation ours;
  };
  static constexpr std::array kNames{Name{"gelu", Activation::gelu},
                                     Name{"gelu_python", Activation::gelu},
                                     Name{"gelu_new", Activation::gelu_tanh},
                                     Name{"gelu_fast", Activation::gelu_tanh},
                                     Name{"gelu_pytorch_tanh", Activation::gelu_tanh},
                                     Name{"gelu_accurate", Activation::gelu_tanh},
                                     Name{"relu", Activation::relu},
                                     Name{"silu", Activation::silu},
                                     Name{"swish", Activation::silu},
                                     Name{"tanh", Activation::tanh},
                                     Name{"sigmoid", Activation::sigmoid},
                                     Name{"quick_gelu", Activation::quick_gelu}};
  const std::string name = text(key, otherwise);
  std::string all;
  for (const Name& one : kNames) {
    if (name == one.theirs) return one.ours;
    all += (all.empty() ? "" : ", ") + std::string(one.theirs);
  }
  refuse(in_quotes(key) + " " + in_quotes(name) + " is not supported; expected one of " + all);
}

std::vector<std::string> HubConfig::labels() const {
  const Json* value = find("id2label");
  if (value == nullptr) return {};
  if (!value->is_object() || value->size() > kMostLabels)
    wrong("id2label", "an object that maps numbers to names", *value);
  std::vector<std::string> result;
  for (size_t i = 0; i < value->size(); ++i) {
    const auto found = value->find(std::to_string(i));
    if (found == value->end() || !found->is_string()) {
      refuse("'id2label' has " + std::to_string(value->size()) + " labels, but no name for " + std::to_string(i));
    }
    result.push_back(found->get<std::string>());
  }
  return result;
}

HubConfig HubConfig::section(const char* key) const {
  const Json* value = find(key);
  if (value != nullptr && !value->is_object()) wrong(key, "an object", *value);
  HubConfig result("{}", file_);
  if (value != nullptr) result.json_ = *value;
  std::shared_ptr<Reads>& reads = reads_->sections[key];
  if (reads == nullptr) reads = result.reads_;
  result.reads_ = reads;
  return result;
}

void HubConfig::expect(const char* key, const Json& only) const {
  const Json* value = find(key);
  if (value == nullptr || *value == only) return;
  refuse(in_quotes(key) + ": " + shown(*value) + " is not supported" + (only.is_null() ? "" : ", only " + shown(only)));
}

void HubConfig::ignore(std::initializer_list<const char*> keys) const { reads_->keys.insert(keys.begin(), keys.end()); }

void HubConfig::add_unread(const Json& json, const Reads& reads, const std::string& prefix,
                           std::vector<Unread>& result) {
  for (const auto& [key, value] : json.items()) {
    if (value.is_null()) continue;
    const auto section = reads.sections.find(key);
    if (!reads.keys.contains(key)) {
      result.push_back({prefix + key, value});
    } else if (section != reads.sections.end()) {
      add_unread(value, *section->second, prefix + key + ".", result);
    }
  }
}

std::vector<HubConfig::Unread> HubConfig::unread() const {
  std::vector<Unread> result;
  add_unread(json_, *reads_, "", result);
  return result;
}

void expect_other_names(const HubConfig& config, std::initializer_list<std::pair<const char*, int64_t>> sizes) {
  for (const auto& [key, size] : sizes) config.expect(key, size);
}

std::string unread_text(const std::vector<HubConfig::Unread>& unread) {
  constexpr size_t kMostNamed = 5;
  std::string text;
  for (size_t i = 0; i < std::min(unread.size(), kMostNamed); ++i) {
    text += (i == 0 ? "" : ", ") + in_quotes(unread[i].key) + ": " + shown(unread[i].value);
  }
  if (unread.size() > kMostNamed) text += " and " + std::to_string(unread.size() - kMostNamed) + " more";
  return text;
}

}  // namespace attend::hub
