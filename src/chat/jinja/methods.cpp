#include "chat/jinja/methods.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "chat/jinja/interpreter.h"
#include "chat/jinja/operations.h"

namespace attend::jinja {
namespace {

Value dict_get(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  arguments.check("get", 2);
  if (arguments.positional.empty()) fail("get expected at least 1 argument, got 0");
  const Value* found = self.dict().find(arguments.positional[0], interpreter.budget());
  return found != nullptr ? *found : arguments.positional.size() > 1 ? arguments.positional[1] : Value();
}
template <DictView::Part part>
Value dict_view(Interpreter&, const Value& self, const Arguments& arguments) {
  arguments.check("view", 0);
  return make_object<DictView>(self.shared_dict(), part);
}
Value copy(Interpreter&, const Value& self, const Arguments& arguments) {
  arguments.check("copy", 0);
  return self;
}

Value sequence_index(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  arguments.check("index", 1);
  if (arguments.positional.empty()) fail("index expected at least 1 argument, got 0");
  const Values& items = self.items();
  const auto found = std::ranges::find_if(
      items, [&](const Value& item) { return equal(item, arguments.positional[0], interpreter.budget()); });
  if (found == items.end()) fail("the value of index() is not in the list");
  return Value(static_cast<int64_t>(found - items.begin()));
}
Value sequence_count(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  arguments.check("count", 1);
  if (arguments.positional.empty()) fail("count() takes exactly one argument (0 given)");
  return Value(static_cast<int64_t>(std::ranges::count_if(
      self.items(), [&](const Value& item) { return equal(item, arguments.positional[0], interpreter.budget()); })));
}

Value is_integer(Interpreter&, const Value& self, const Arguments& arguments) {
  arguments.check("is_integer", 0);
  return Value(self.is_whole() || (std::isfinite(self.real()) && std::trunc(self.real()) == self.real()));
}
Value bit_length(Interpreter&, const Value& self, const Arguments& arguments) {
  arguments.check("bit_length", 0);
  const auto bits = static_cast<uint64_t>(self.integer());
  const uint64_t size = self.integer() < 0 ? ~bits + 1 : bits;
  return Value(size == 0 ? int64_t{0} : 64 - int64_t{__builtin_clzll(size)});
}

using Methods = std::map<std::string_view, MethodBody>;

MethodBody find(const Methods& methods, std::string_view name) {
  const auto found = methods.find(name);
  return found != methods.end() ? found->second : nullptr;
}

MethodBody body_of(const Value& value, std::string_view name) {
  static const Methods dict{{"get", dict_get},
                            {"keys", dict_view<DictView::Part::keys>},
                            {"values", dict_view<DictView::Part::values>},
                            {"items", dict_view<DictView::Part::items>},
                            {"copy", copy}};
  static const Methods list{{"index", sequence_index}, {"count", sequence_count}, {"copy", copy}};
  static const Methods tuple{{"index", sequence_index}, {"count", sequence_count}};
  static const Methods integer{{"bit_length", bit_length}, {"is_integer", is_integer}};
  static const Methods real{{"is_integer", is_integer}};
  if (value.is_text()) return text_method(name);
  if (value.is_dict()) return find(dict, name);
  if (value.is_list()) return find(list, name);
  if (value.is_tuple()) return find(tuple, name);
  if (value.is_whole()) return find(integer, name);
  return value.is_real() ? find(real, name) : nullptr;
}

/// Methods that would change a list or a dict.
bool is_mutation(const Value& value, std::string_view name) {
  static const std::set<std::string_view> list{"append", "clear",  "extend",  "insert",
                                               "pop",    "remove", "reverse", "sort"};
  static const std::set<std::string_view> dict{"clear", "pop", "popitem", "setdefault", "update"};
  return (value.is_list() && list.contains(name)) || (value.is_dict() && dict.contains(name));
}

}  // namespace

std::optional<Value> method(Interpreter&, const Value& value, std::string_view name) {
  if (const MethodBody body = body_of(value, name)) {
    const auto call = [body, value](Interpreter& interpreter, const Arguments& arguments) {
      return body(interpreter, value, arguments);
    };
    return make_object<Function>(std::string(name), call, depth_of(value));
  }
  if (is_mutation(value, name)) {
    return undefined("access to attribute '" + std::string(name) + "' of '" + type_name(value) + "' object is unsafe.");
  }
  if (value.is_tuple()) {
    const auto& names = value.sequence().names;
    const auto found = std::ranges::find(names, name);
    if (found != names.end()) return value.items()[static_cast<size_t>(found - names.begin())];
  }
  return std::nullopt;
}

}  // namespace attend::jinja
