#include "chat/jinja/value.h"

#include <algorithm>
#include <cmath>

#include "chat/jinja/objects.h"
#include "chat/jinja/strings.h"

namespace attend::jinja {
namespace {

Value::SequencePointer sequence(Values items, std::vector<std::string> names) {
  auto result = std::make_shared<Sequence>();
  result->depth = depth_above(items);
  result->items = std::move(items);
  result->names = std::move(names);
  return result;
}

void append_hash(const Value& key, std::string& out, Budget& budget) {
  budget.step();
  if (key.is_text()) {
    budget.bytes(static_cast<int64_t>(key.bytes().size()));
    ((out += 's') += std::to_string(key.bytes().size()) + ':') += key.bytes();
  } else if (key.is_none()) {
    out += 'n';
  } else if (key.is_whole()) {
    out += 'i' + std::to_string(key.integer());
  } else if (key.is_real()) {
    const double value = key.real();
    const bool is_integral = std::trunc(value) == value && std::abs(value) < 0x1p63;
    out += is_integral ? 'i' + std::to_string(static_cast<int64_t>(value)) : 'f' + float_text(value);
  } else if (key.is_tuple()) {
    out += '(';
    for (const Value& item : key.items()) append_hash(item, out, budget);
    out += ')';
  } else if (key.is_undefined()) {
    out += 'u';
  } else if (key.is_object()) {
    out += 'o' + std::to_string(reinterpret_cast<uintptr_t>(&key.object()));
  } else {
    fail("unhashable type: '", type_name(key), "'");
  }
  budget.check(out.size());
}

}  // namespace

bool Value::is_same(const Value& other) const {
  if (data_.index() != other.data_.index()) return false;
  if (is_text()) return &text() == &other.text() || bytes() == other.bytes();
  if (is_sequence()) return &sequence() == &other.sequence();
  if (is_dict()) return &dict() == &other.dict();
  if (is_object()) return &object() == &other.object();
  if (is_undefined()) return &undefined() == &other.undefined();
  return is_none() || (is_real() ? real() == other.real() : integer() == other.integer());
}

Value Budget::text(std::string text, bool is_markup) {
  bytes(static_cast<int64_t>(text.size()));
  return plain_text(std::move(text), is_markup);
}
Value Budget::list(Values items) {
  bytes(static_cast<int64_t>(items.size() * sizeof(Value)));
  return Value(Value::List{sequence(std::move(items), {})});
}
Value Budget::tuple(Values items, std::vector<std::string> names) {
  bytes(static_cast<int64_t>(items.size() * sizeof(Value)));
  return Value(Value::Tuple{sequence(std::move(items), std::move(names))});
}
Value Budget::dict(Dict dict) {
  bytes(static_cast<int64_t>(dict.members.size() * 2 * sizeof(Value)));
  int deepest = 0;
  for (const auto& [key, value] : dict.members) deepest = std::max({deepest, depth_of(key), depth_of(value)});
  if (deepest >= kDeepestValue) fail("values are nested too deeply");
  dict.depth = deepest + 1;
  return Value(std::shared_ptr<const Dict>(std::make_shared<Dict>(std::move(dict))));
}

std::string hash_key(const Value& key, Budget& budget) {
  std::string out;
  append_hash(key, out, budget);
  return out;
}

const Value* Dict::find(std::string_view key) const {
  if (members.size() >= kIndexedFrom) return find_hash('s' + std::to_string(key.size()) + ':' + std::string(key));
  for (const auto& [name, value] : members) {
    if (name.is_text() && name.bytes() == key) return &value;
  }
  return nullptr;
}
const Value* Dict::find(const Value& key, Budget& budget) const {
  if (key.is_text()) return find(key.bytes());
  const std::string hash = hash_key(key, budget);
  if (members.size() >= kIndexedFrom) return find_hash(hash);
  for (const auto& [name, value] : members) {
    if (!name.is_text() && hash_key(name, budget) == hash) return &value;
  }
  return nullptr;
}
const Value* Dict::find_hash(const std::string& hash) const {
  const auto found = index_.find(hash);
  return found != index_.end() ? &members[found->second].second : nullptr;
}
void Dict::set(const Value& key, Value value, Budget& budget) {
  if (const Value* found = find(key, budget)) {
    const_cast<Value&>(*found) = std::move(value);
    return;
  }
  members.emplace_back(key, std::move(value));
  if (members.size() < kIndexedFrom) return;
  for (size_t i = index_.size(); i < members.size(); ++i) index_.emplace(hash_key(members[i].first, budget), i);
}
void Dict::set(std::string_view key, Value value) {
  Budget unlimited(INT64_MAX, INT64_MAX, INT64_MAX);
  set(plain_text(std::string(key)), std::move(value), unlimited);
}

Value plain_text(std::string bytes, bool is_markup) {
  auto text = std::make_shared<Text>();
  text->length = count_code_points(bytes);
  text->bytes = std::move(bytes);
  text->is_markup = is_markup;
  return Value(Value::TextPointer(std::move(text)));
}
Value undefined(std::string message) {
  return Value(std::shared_ptr<const Undefined>(std::make_shared<Undefined>(Undefined{std::move(message)})));
}

int depth_of(const Value& value) {
  if (value.is_sequence()) return value.sequence().depth;
  if (value.is_dict()) return value.dict().depth;
  return value.is_object() ? value.object().depth : 0;
}
int depth_above(const Values& items) {
  int deepest = 0;
  for (const Value& item : items) deepest = std::max(deepest, depth_of(item));
  if (deepest >= kDeepestValue) fail("values are nested too deeply");
  return deepest + 1;
}

std::string type_name(const Value& value) {
  if (value.is_undefined()) return "Undefined";
  if (value.is_none()) return "NoneType";
  if (value.is_boolean()) return "bool";
  if (value.is_integer()) return "int";
  if (value.is_real()) return "float";
  if (value.is_text()) return value.is_markup() ? "Markup" : "str";
  if (value.is_list()) return "list";
  if (value.is_tuple()) return "tuple";
  return value.is_dict() ? "dict" : value.object().type();
}

}  // namespace attend::jinja
