#include <algorithm>
#include <cmath>

#include "chat/jinja/filters.h"
#include "chat/jinja/interpreter.h"
#include "chat/jinja/operations.h"
#include "chat/jinja/strings.h"

namespace attend::jinja {
namespace {

using Given = const Arguments&;

/// The arguments without the first `count` positional ones.
Arguments rest_of(Given arguments, size_t count) {
  const auto first =
      arguments.positional.begin() + static_cast<std::ptrdiff_t>(std::min(count, arguments.positional.size()));
  return {.positional = Values(first, arguments.positional.end()), .named = arguments.named};
}

const std::string& name_of(const Value& value, const char* what) {
  if (value.is_undefined()) fail(value.undefined().message);
  if (!value.is_text()) fail("expected the name of a ", what, ", got ", type_name(value));
  return value.bytes();
}

int depth_of_all(const Value& value, Given arguments) {
  int depth = depth_of(value);
  for (const Value& argument : arguments.positional) depth = std::max(depth, depth_of(argument));
  for (const auto& [name, argument] : arguments.named) depth = std::max(depth, depth_of(argument));
  return depth;
}

/// What Jinja's generators yield for any false value, even one that cannot be iterated.
Value nothing() {
  return make_generator([] { return std::nullopt; }, "generator", 0);
}

/// select, reject, selectattr and rejectattr.
template <bool wants_true, bool by_attribute>
Value select(Interpreter& interpreter, const Value& value, Given arguments) {
  const Values& given = arguments.positional;
  const size_t skipped = by_attribute ? 1 : 0;
  if (given.size() < skipped) fail("Missing parameter for attribute name");
  const Value attribute = by_attribute ? given[0] : Value();
  const bool has_test = given.size() > skipped;
  const std::string test = has_test ? name_of(given[skipped], "test") : "";
  if (!is_true(value)) return nothing();
  const Next next = iterate(value, interpreter.budget());
  const auto passes = [&interpreter, attribute, has_test, test,
                       rest = rest_of(arguments, skipped + 1)](const Value& item) {
    const Value subject = by_attribute ? attribute_path(interpreter, item, attribute) : item;
    return (has_test ? apply_test(interpreter, test, subject, rest) : is_true(subject)) == wants_true;
  };
  const auto filtered = [next, passes]() -> std::optional<Value> {
    while (auto item = next()) {
      if (passes(*item)) return item;
    }
    return std::nullopt;
  };
  return make_generator(filtered, "generator", depth_of_all(value, arguments));
}

/// map(attribute=…, default=…) or map('filter', …).
Value map(Interpreter& interpreter, const Value& value, Given arguments) {
  if (!is_true(value)) return nothing();
  const Value* attribute = arguments.find(SIZE_MAX, "attribute");
  const Value* otherwise = arguments.find(SIZE_MAX, "default");
  const bool by_attribute = arguments.positional.empty() && attribute != nullptr;
  if (by_attribute) {
    for (const auto& [name, given] : arguments.named) {
      if (name != "attribute" && name != "default") fail("Unexpected keyword argument '", name, "'");
    }
  } else if (arguments.positional.empty()) {
    fail("map requires a filter argument");
  }
  const Next next = iterate(value, interpreter.budget());
  const Value path = by_attribute ? *attribute : Value(), fallback = otherwise == nullptr ? Value() : *otherwise;
  const std::string filter = by_attribute ? "" : name_of(arguments.positional[0], "filter");
  const auto mapped = [&interpreter, next, by_attribute, path, fallback, filter,
                       rest = rest_of(arguments, 1)]() -> std::optional<Value> {
    const auto item = next();
    if (!item) return std::nullopt;
    if (by_attribute) return attribute_path(interpreter, *item, path, &fallback);
    return apply_filter(interpreter, filter, *item, rest);
  };
  return make_generator(mapped, "generator", depth_of_all(value, arguments));
}

Value default_value(Interpreter&, const Value& value, Given arguments) {
  arguments.check("default", 2, {"default_value", "boolean"});
  const Value *otherwise = arguments.find(0, "default_value"), *boolean = arguments.find(1, "boolean");
  const bool is_missing = value.is_undefined() || (boolean != nullptr && is_true(*boolean) && !is_true(value));
  if (!is_missing) return value;
  return otherwise == nullptr ? plain_text("") : *otherwise;
}

Value attr(Interpreter& interpreter, const Value& value, Given arguments) {
  arguments.check("attr", 1, {"name"});
  const Value* name = arguments.find(0, "name");
  if (name == nullptr) fail("attr needs a name");
  if (value.is_undefined()) fail(value.undefined().message);
  const auto found = interpreter.member(value, name_of(*name, "attribute"));  // never a key of a dict
  return found ? *found
               : undefined("'" + type_name(value) + " object' has no attribute " + python_quoted(name->bytes()));
}

}  // namespace

void add_selection_filters(FilterTable& table) {
  table.insert({{"select", select<true, false>},
                {"reject", select<false, false>},
                {"selectattr", select<true, true>},
                {"rejectattr", select<false, true>},
                {"map", map},
                {"default", default_value},
                {"d", default_value},
                {"attr", attr}});
}

}  // namespace attend::jinja
