// The tests of `value is name`.

#include <cmath>

#include "chat/jinja/filters.h"
#include "chat/jinja/interpreter.h"
#include "chat/jinja/operations.h"
#include "chat/jinja/strings.h"

namespace attend::jinja {
namespace {

using Given = const Arguments&;
using TestBody = bool (*)(Interpreter&, const Value&, Given);

template <bool (*holds)(const Value&)>
bool plain(Interpreter&, const Value& value, Given arguments) {
  arguments.check("the test", 0);
  return holds(value);
}

bool is_defined(const Value& value) { return !value.is_undefined(); }
bool is_undefined(const Value& value) { return value.is_undefined(); }
bool is_none(const Value& value) { return value.is_none(); }
bool is_boolean(const Value& value) { return value.is_boolean(); }
bool is_true_itself(const Value& value) { return value.is_boolean() && value.boolean(); }
bool is_false_itself(const Value& value) { return value.is_boolean() && !value.boolean(); }
bool is_integer(const Value& value) { return value.is_integer(); }
bool is_float(const Value& value) { return value.is_real(); }
bool is_number(const Value& value) { return value.is_number(); }
bool is_string(const Value& value) { return value.is_text(); }
bool is_mapping(const Value& value) { return value.is_dict(); }
bool is_escaped(const Value& value) { return value.is_markup(); }
bool is_callable(const Value& value) {
  return value.is_undefined() || (value.is_object() && value.object().is_callable());
}
/// Whether the value has a length and can be indexed, as a dict can, too.
bool is_sequence(const Value& value) {
  if (value.is_object()) return value.object().is_sequence();
  return value.is_undefined() || value.is_text() || value.is_sequence() || value.is_dict();
}

template <const char* name>
bool has_case(Interpreter& interpreter, const Value& value, Given arguments) {
  arguments.check("the test", 0);
  return *has_property(to_text(value, interpreter.budget()), name);
}
constexpr char kUpper[] = "upper", kLower[] = "lower";

const Value& operand(Given arguments) {
  arguments.check("the test", 1);
  if (arguments.positional.empty()) fail("the test needs an argument");
  return arguments.positional[0];
}

bool divides(Interpreter& interpreter, const Value& value, const Value& divisor, int64_t rest) {
  return equal(arithmetic("%", value, divisor, interpreter.budget()), Value(rest), interpreter.budget());
}
bool odd(Interpreter& interpreter, const Value& value, Given arguments) {
  arguments.check("odd", 0);
  return divides(interpreter, value, Value(int64_t{2}), 1);
}
bool even(Interpreter& interpreter, const Value& value, Given arguments) {
  arguments.check("even", 0);
  return divides(interpreter, value, Value(int64_t{2}), 0);
}
bool divisible_by(Interpreter& interpreter, const Value& value, Given arguments) {
  const Value* divisor = arguments.find(0, "num");
  if (divisor == nullptr) fail("divisibleby needs an argument");
  return divides(interpreter, value, *divisor, 0);
}

bool equals(Interpreter& interpreter, const Value& value, Given arguments) {
  return equal(value, operand(arguments), interpreter.budget());
}
bool differs(Interpreter& interpreter, const Value& value, Given arguments) {
  return !equal(value, operand(arguments), interpreter.budget());
}
bool is_less(Interpreter& interpreter, const Value& value, Given arguments) {
  return less(value, operand(arguments), interpreter.budget());
}
bool is_greater(Interpreter& interpreter, const Value& value, Given arguments) {
  return less(operand(arguments), value, interpreter.budget(), ">");
}
bool is_at_most(Interpreter& interpreter, const Value& value, Given arguments) {
  return less(value, operand(arguments), interpreter.budget(), "<=") || equals(interpreter, value, arguments);
}
bool is_at_least(Interpreter& interpreter, const Value& value, Given arguments) {
  return less(operand(arguments), value, interpreter.budget(), ">=") || equals(interpreter, value, arguments);
}
bool is_in(Interpreter& interpreter, const Value& value, Given arguments) {
  return contains(operand(arguments), value, interpreter.budget());
}
bool same_as(Interpreter&, const Value& value, Given arguments) { return value.is_same(operand(arguments)); }
bool names_filter(Interpreter&, const Value& value, Given) { return value.is_text() && has_filter(value.bytes()); }
bool names_test(Interpreter&, const Value& value, Given) { return value.is_text() && has_test(value.bytes()); }

const std::map<std::string_view, TestBody>& tests() {
  static const std::map<std::string_view, TestBody> table{{"defined", plain<is_defined>},
                                                          {"undefined", plain<is_undefined>},
                                                          {"none", plain<is_none>},
                                                          {"boolean", plain<is_boolean>},
                                                          {"true", plain<is_true_itself>},
                                                          {"false", plain<is_false_itself>},
                                                          {"integer", plain<is_integer>},
                                                          {"float", plain<is_float>},
                                                          {"number", plain<is_number>},
                                                          {"string", plain<is_string>},
                                                          {"mapping", plain<is_mapping>},
                                                          {"iterable", plain<is_iterable>},
                                                          {"sequence", plain<is_sequence>},
                                                          {"callable", plain<is_callable>},
                                                          {"escaped", plain<is_escaped>},
                                                          {"lower", has_case<kLower>},
                                                          {"upper", has_case<kUpper>},
                                                          {"odd", odd},
                                                          {"even", even},
                                                          {"divisibleby", divisible_by},
                                                          {"sameas", same_as},
                                                          {"in", is_in},
                                                          {"filter", names_filter},
                                                          {"test", names_test},
                                                          {"==", equals},
                                                          {"eq", equals},
                                                          {"equalto", equals},
                                                          {"!=", differs},
                                                          {"ne", differs},
                                                          {"<", is_less},
                                                          {"lt", is_less},
                                                          {"lessthan", is_less},
                                                          {"<=", is_at_most},
                                                          {"le", is_at_most},
                                                          {">", is_greater},
                                                          {"gt", is_greater},
                                                          {"greaterthan", is_greater},
                                                          {">=", is_at_least},
                                                          {"ge", is_at_least}};
  return table;
}

}  // namespace

bool has_test(std::string_view name) { return tests().contains(name); }

bool apply_test(Interpreter& interpreter, std::string_view name, const Value& value, const Arguments& arguments) {
  const auto found = tests().find(name);
  if (found == tests().end()) fail("No test named '", name, "' found.");
  interpreter.budget().step();
  return found->second(interpreter, value, arguments);
}

}  // namespace attend::jinja
