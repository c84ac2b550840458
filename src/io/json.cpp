#include "attend/io/json.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <ostream>

#include "io/json_depth.h"
#include "io/printable.h"

namespace attend {

/// The members in insertion order. Above kIndexedFrom members, a hash table finds them by key.
class JsonObject {
 public:
  std::vector<std::unique_ptr<Json::Member>> members;  ///< allocated one by one, so that references stay valid

  JsonObject() = default;
  JsonObject(const JsonObject& other) : slots_(other.slots_) {
    for (const auto& member : other.members) members.push_back(std::make_unique<Json::Member>(*member));
  }
  JsonObject& operator=(const JsonObject&) = delete;

  const std::unique_ptr<Json::Member>* find(std::string_view key) const {
    const size_t place = place_of(key);
    return place < members.size() ? &members[place] : nullptr;
  }
  Json& add(std::string_view key) {
    const size_t place = place_of(key);
    if (place == members.size()) {
      members.push_back(std::make_unique<Json::Member>(Json::Member{std::string(key), Json()}));
      note(place);
    }
    return members[place]->value;
  }
  bool erase(std::string_view key) {
    const size_t place = place_of(key);
    if (place == members.size()) return false;
    members.erase(members.begin() + static_cast<std::ptrdiff_t>(place));
    rebuild();
    return true;
  }

 private:
  static constexpr size_t kIndexedFrom = 16;

  /// Index of the member with this key, or the number of members if there is none.
  size_t place_of(std::string_view key) const {
    if (slots_.empty()) {
      const auto found = std::ranges::find_if(members, [key](const auto& member) { return member->key == key; });
      return static_cast<size_t>(found - members.begin());
    }
    for (size_t slot = first_slot(key);; slot = (slot + 1) % slots_.size()) {
      if (slots_[slot] == 0) return members.size();
      if (members[slots_[slot] - 1]->key == key) return slots_[slot] - 1;
    }
  }
  size_t first_slot(std::string_view key) const { return std::hash<std::string_view>()(key) % slots_.size(); }

  void note(size_t place) {
    if (members.size() > kIndexedFrom && members.size() * 2 > slots_.size()) return rebuild();
    if (slots_.empty()) return;
    size_t slot = first_slot(members[place]->key);
    while (slots_[slot] != 0) slot = (slot + 1) % slots_.size();
    slots_[slot] = place + 1;
  }

  void rebuild() {
    slots_.clear();
    if (members.size() <= kIndexedFrom) return;
    slots_.resize(members.size() * 4);
    for (size_t place = 0; place < members.size(); ++place) note(place);
  }

  std::vector<size_t> slots_;  ///< open addressing: 1 + the index of a member, or 0 for an empty slot
};

namespace {

enum Type : size_t { kNull, kBoolean, kInteger, kUnsigned, kNumber, kString, kArray, kObject };

/// Builds values from the events of nlohmann's parser.
class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return put(Json()); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t&) override { return put(value); }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return open(Json::object()); }
  bool key(string_t& value) override {
    slot_ = &(*open_.back())[value];
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    byte_ = position;
    return false;
  }

  Json root;
  size_t byte() const { return byte_; }

 private:
  Json& put_at(Json value) {
    if (open_.empty()) return root = std::move(value);
    if (open_.back()->is_array()) return open_.back()->emplace_back(std::move(value));
    return *slot_ = std::move(value);
  }
  bool put(Json value) {
    put_at(std::move(value));
    return true;
  }
  bool open(Json value) {
    open_.push_back(&put_at(std::move(value)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::vector<Json*> open_;  ///< open containers. Elements are added only to the last one, so that none of these moves
  Json* slot_ = nullptr;
  size_t byte_ = 0;
};

void write_string(std::string_view text, std::string& out) {
  static constexpr char kDigits[] = "0123456789abcdef";
  out += '"';
  while (!text.empty()) {
    const size_t valid = valid_utf8_prefix(text);
    for (const char c : text.substr(0, valid)) {
      const auto byte = static_cast<unsigned char>(c);
      if (c == '"' || c == '\\') {
        out += '\\';
        out += c;
      } else if (byte >= 0x20) {
        out += c;
      } else if (const char* found = std::strchr("\b\f\n\r\t", c); found != nullptr && c != '\0') {
        out += '\\';
        out += "bfnrt"[found - "\b\f\n\r\t"];
      } else {
        (out += "\\u00") += {kDigits[byte >> 4], kDigits[byte & 15]};
      }
    }
    text.remove_prefix(valid);
    if (text.empty()) break;
    out += "\xEF\xBF\xBD";
    text.remove_prefix(1);
  }
  out += '"';
}

void write_number(double value, std::string& out) {
  if (!std::isfinite(value)) return void(out += "null");
  std::array<char, 64> text;
  out.append(text.data(), nlohmann::detail::to_chars(text.data(), text.data() + text.size(), value));
}

class Writer {
 public:
  Writer(int indent, std::string& out) : indent_(indent), out_(out) {}

  void write(const Json& json) {
    if (json.is_object()) return object(json);
    if (json.is_array()) return array(json);
    if (json.is_string()) return write_string(json.string(), out_);
    if (json.is_boolean()) return void(out_ += json.boolean() ? "true" : "false");
    if (json.is_null()) return void(out_ += "null");
    if (!json.is_number_integer()) return write_number(json.number(), out_);
    out_ += json.is_number_unsigned() ? std::to_string(static_cast<uint64_t>(json.integer()))
                                      : std::to_string(json.integer());
  }

 private:
  void object(const Json& json) {
    bool is_first = true;
    out_ += '{';
    ++depth_;
    for (const auto& [key, value] : json.items()) {
      before(std::exchange(is_first, false));
      write_string(key, out_);
      out_ += indent_ < 0 ? ":" : ": ";
      write(value);
    }
    end(is_first, '}');
  }
  void array(const Json& json) {
    bool is_first = true;
    out_ += '[';
    ++depth_;
    for (const Json& item : json) {
      before(std::exchange(is_first, false));
      write(item);
    }
    end(is_first, ']');
  }
  void before(bool is_first) {
    if (!is_first) out_ += ',';
    line();
  }
  void end(bool is_empty, char closing) {
    --depth_;
    if (!is_empty) line();
    out_ += closing;
  }
  void line() {
    if (indent_ < 0) return;
    out_ += '\n';
    for (int i = 0; i < indent_ * depth_; ++i) out_ += ' ';
  }

  int indent_, depth_ = 0;
  std::string& out_;
};

}  // namespace

Json::Json() = default;
Json::Json(std::nullptr_t) {}
Json::Json(const char* text) : value_(std::string(text)) {}
Json::Json(std::string text) : value_(std::move(text)) {}
Json::Json(std::string_view text) : value_(std::string(text)) {}
Json::Json(std::initializer_list<Json> items) {
  const bool is_object = std::ranges::all_of(
      items, [](const Json& item) { return item.is_array() && item.size() == 2 && item[0].is_string(); });
  *this = is_object ? object(items) : array(items);
}
Json::Json(const Json& other) { *this = other; }
Json::Json(Json&& other) noexcept : value_(std::exchange(other.value_, std::monostate())) {}
Json& Json::operator=(const Json& other) {
  if (this == &other) return *this;
  std::visit(
      [this](const auto& value) {
        if constexpr (std::is_same_v<decltype(value), const std::shared_ptr<JsonObject>&>) {
          value_ = std::make_shared<JsonObject>(*value);
        } else {
          decltype(value_) copy(value);  // `other` may be a part of *this
          value_ = std::move(copy);
        }
      },
      other.value_);
  return *this;
}
Json& Json::operator=(Json&& other) noexcept {
  auto value = std::exchange(other.value_, std::monostate());  // `other` may be a part of *this
  value_ = std::move(value);
  return *this;
}
Json::~Json() = default;

Json Json::array(std::initializer_list<Json> items) {
  Json json;
  json.value_ = Array(items);
  return json;
}
Json Json::object(std::initializer_list<Json> members) {
  Json json;
  json.value_ = std::make_shared<JsonObject>();
  for (const Json& member : members) json[member.at(size_t{0}).string()] = member.at(1);
  return json;
}

Json Json::parse(std::string_view text) {
  if (const auto deep = deep_json_at(text)) {
    throw JsonParseError("JSON nested deeper than " + std::to_string(kDeepestJson), *deep + 1);
  }
  Builder builder;
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) {
    throw JsonParseError("not valid JSON at byte " + std::to_string(builder.byte()), builder.byte());
  }
  return std::move(builder.root);
}
Json Json::parse_or_null(std::string_view text) {
  try {
    return parse(text);
  } catch (const JsonParseError&) {
    return {};
  }
}

bool Json::is_null() const { return value_.index() == kNull; }
bool Json::is_boolean() const { return value_.index() == kBoolean; }
bool Json::is_number() const { return value_.index() >= kInteger && value_.index() <= kNumber; }
bool Json::is_number_integer() const { return value_.index() == kInteger || value_.index() == kUnsigned; }
bool Json::is_number_unsigned() const {
  return value_.index() == kUnsigned || (value_.index() == kInteger && std::get<int64_t>(value_) >= 0);
}
bool Json::is_string() const { return value_.index() == kString; }
bool Json::is_array() const { return value_.index() == kArray; }
bool Json::is_object() const { return value_.index() == kObject; }
const char* Json::type_name() const {
  static constexpr const char* kNames[] = {"null",   "boolean", "number", "number",
                                           "number", "string",  "array",  "object"};
  return kNames[value_.index()];
}

size_t Json::size() const {
  if (is_object()) return std::get<std::shared_ptr<JsonObject>>(value_)->members.size();
  return is_array() ? items_of_array().size() : is_null() ? 0 : 1;
}

void Json::wrong(const char* expected) const {
  throw JsonError(std::string("expected ") + expected + " in JSON, got " + type_name());
}
bool Json::boolean() const {
  if (!is_boolean()) wrong("true or false");
  return std::get<bool>(value_);
}
double Json::number() const {
  if (const auto* value = std::get_if<double>(&value_)) return *value;
  if (const auto* value = std::get_if<int64_t>(&value_)) return static_cast<double>(*value);
  if (const auto* value = std::get_if<uint64_t>(&value_)) return static_cast<double>(*value);
  wrong("a number");
}
int64_t Json::integer() const {
  if (const auto* value = std::get_if<int64_t>(&value_)) return *value;
  if (const auto* value = std::get_if<uint64_t>(&value_)) return static_cast<int64_t>(*value);
  const double value = number();
  if (!(std::abs(value) < 0x1p63)) throw JsonError("a number in JSON is too large for a 64-bit integer");
  return static_cast<int64_t>(value);
}
const std::string& Json::string() const {
  if (!is_string()) wrong("a string");
  return std::get<std::string>(value_);
}
void Json::set_boolean(bool value) { value_ = value; }
void Json::set_integer(int64_t value) { value_ = value; }
void Json::set_unsigned(uint64_t value) {
  value <= static_cast<uint64_t>(INT64_MAX) ? set_integer(static_cast<int64_t>(value)) : void(value_ = value);
}
void Json::set_number(double value) { value_ = value; }
const Json::Array& Json::items_of_array() const {
  if (!is_array()) wrong("an array");
  return std::get<Array>(value_);
}
Json::Members Json::items() const {
  return Members(is_object() ? &std::get<std::shared_ptr<JsonObject>>(value_)->members : nullptr);
}

const std::unique_ptr<Json::Member>* Json::member(std::string_view key) const {
  return is_object() ? std::get<std::shared_ptr<JsonObject>>(value_)->find(key) : nullptr;
}
const Json* Json::value_at(std::string_view key) const {
  const auto* found = member(key);
  return found != nullptr ? &(*found)->value : nullptr;
}
std::string Json::value(std::string_view key, const char* otherwise) const {
  return value(key, std::string(otherwise));
}
bool Json::contains(std::string_view key) const { return member(key) != nullptr; }
const Json& Json::at(std::string_view key) const {
  if (!is_object()) wrong("an object");
  const Json* found = value_at(key);
  if (found == nullptr) throw JsonError("key " + in_quotes(key) + " is missing in JSON");
  return *found;
}
Json& Json::at(std::string_view key) { return const_cast<Json&>(std::as_const(*this).at(key)); }
const Json& Json::at(size_t index) const {
  const Array& items = items_of_array();
  require<JsonError>(index < items.size(), "index ", index, " is out of range: the JSON array has ", items.size(),
                     " elements");
  return items[index];
}
Json& Json::at(size_t index) { return const_cast<Json&>(std::as_const(*this).at(index)); }
Json& Json::operator[](std::string_view key) {
  if (is_null()) value_ = std::make_shared<JsonObject>();
  if (!is_object()) wrong("an object");
  return std::get<std::shared_ptr<JsonObject>>(value_)->add(key);
}

void Json::push_back(Json item) {
  if (is_null()) value_ = Array();
  if (!is_array()) wrong("an array");
  std::get<Array>(value_).push_back(std::move(item));
}
void Json::update(const Json& other) {
  for (const auto& [key, value] : other.items()) (*this)[key] = value;
}
bool Json::erase(std::string_view key) {
  return is_object() && std::get<std::shared_ptr<JsonObject>>(value_)->erase(key);
}

Json::const_iterator Json::find(std::string_view key) const {
  const auto* found = member(key);
  return found != nullptr ? const_iterator(found) : end();
}
Json::iterator Json::find(std::string_view key) {
  const auto* found = member(key);
  return found != nullptr ? iterator(found) : end();
}
Json::const_iterator Json::begin() const {
  if (is_object()) return const_iterator(std::get<std::shared_ptr<JsonObject>>(value_)->members.data());
  return is_array() ? const_iterator(items_of_array().data()) : const_iterator();
}
Json::const_iterator Json::end() const {
  if (is_object()) return const_iterator(std::get<std::shared_ptr<JsonObject>>(value_)->members.data() + size());
  return is_array() ? const_iterator(items_of_array().data() + items_of_array().size()) : const_iterator();
}
Json::iterator Json::begin() {
  if (is_object()) return iterator(std::get<std::shared_ptr<JsonObject>>(value_)->members.data());
  return is_array() ? iterator(std::get<Array>(value_).data()) : iterator();
}
Json::iterator Json::end() {
  if (is_object()) return iterator(std::get<std::shared_ptr<JsonObject>>(value_)->members.data() + size());
  return is_array() ? iterator(std::get<Array>(value_).data() + size()) : iterator();
}

std::string Json::dump(int indent) const {
  std::string text;
  Writer(indent, text).write(*this);
  return text;
}

bool operator==(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) {
    const bool are_integers = a.is_number_integer() && b.is_number_integer();
    if (!are_integers) return a.number() == b.number();
    return a.integer() == b.integer() && a.is_number_unsigned() == b.is_number_unsigned();
  }
  if (a.value_.index() != b.value_.index()) return false;
  if (a.is_object()) {
    if (a.size() != b.size()) return false;
    for (const auto& [key, value] : a.items()) {
      const Json* other = b.value_at(key);
      if (other == nullptr || !(value == *other)) return false;
    }
    return true;
  }
  return a.value_ == b.value_;
}
std::ostream& operator<<(std::ostream& out, const Json& json) { return out << json.dump(); }

}  // namespace attend
