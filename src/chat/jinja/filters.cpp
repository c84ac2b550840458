#include "chat/jinja/filters.h"

#include "chat/jinja/interpreter.h"
#include "chat/jinja/operations.h"
#include "chat/jinja/strings.h"

namespace attend::jinja {
namespace {

const FilterTable& filters() {
  static const FilterTable table = [] {
    FilterTable result;
    add_text_filters(result);
    add_list_filters(result);
    add_selection_filters(result);
    add_number_filters(result);
    return result;
  }();
  return table;
}

}  // namespace

bool has_filter(std::string_view name) { return filters().contains(name); }

Value apply_filter(Interpreter& interpreter, std::string_view name, const Value& value, const Arguments& arguments) {
  const auto found = filters().find(name);
  if (found == filters().end()) fail("No filter named '", name, "' found.");
  interpreter.budget().step();
  return found->second(interpreter, value, arguments);
}

Value attribute_path(Interpreter& interpreter, const Value& item, const Value& path, const Value* otherwise) {
  Value value = item;
  const auto step = [&](const Value& part) {
    value = interpreter.item(value, part);
    if (otherwise != nullptr && !otherwise->is_none() && value.is_undefined()) value = *otherwise;
  };
  if (path.is_none()) return value;
  if (!path.is_text()) {
    step(path);
    return value;
  }
  for (const std::string_view part : split(path.bytes(), ".", -1)) {
    const auto index = *has_property(part, "digit") ? parse_integer(part, 10) : std::nullopt;
    step(index ? Value(*index) : plain_text(std::string(part)));
  }
  return value;
}

Value ignoring_case(const Value& value, Budget& budget) {
  return value.is_text() ? budget.text(lower_case_of(value.bytes())) : value;
}

}  // namespace attend::jinja
