// The part of the interpreter that evaluates expressions.

#include <algorithm>

#include "chat/jinja/filters.h"
#include "chat/jinja/interpreter.h"
#include "chat/jinja/methods.h"
#include "chat/jinja/operations.h"
#include "chat/jinja/strings.h"

namespace attend::jinja {
namespace {

/// How Jinja names an object in its messages.
std::string described(const Value& value) { return value.is_none() ? "None" : type_name(value) + " object"; }

Value missing(const Value& value, const Value& key) {
  if (!key.is_text()) {
    const std::string index = key.is_integer() ? std::to_string(key.integer()) : "(" + type_name(key) + ")";
    return undefined(described(value) + " has no element " + index);
  }
  return undefined("'" + described(value) + "' has no attribute " + python_quoted(key.bytes()));
}

/// value[key] as Python's; nullopt where Python raises a LookupError or TypeError.
std::optional<Value> subscript(const Value& value, const Value& key, Budget& budget) {
  if (value.is_dict()) {
    if (key.is_list() || key.is_dict()) return std::nullopt;  // not hashable
    const Value* found = value.dict().find(key, budget);
    return found != nullptr ? std::optional(*found) : std::nullopt;
  }
  if (!key.is_whole()) return std::nullopt;
  const bool is_indexed = value.is_text() || value.is_sequence() || (value.is_object() && value.object().is_sequence());
  if (!is_indexed) return std::nullopt;
  const int64_t length = length_of(value), given = key.integer();
  const int64_t index = given < 0 ? given + length : given;
  if (index < 0 || index >= length) return std::nullopt;
  if (value.is_sequence()) return value.items()[static_cast<size_t>(index)];
  if (value.is_object()) return value.object().item(index);
  return slice(value, Value(index), Value(index + 1), Value(), budget);
}

}  // namespace

Value Interpreter::evaluate(const Expression& expression, const ScopePointer& scope) {
  using Kind = Expression::Kind;
  const Depth depth(*this);
  budget().step();
  line_ = expression.line;
  switch (expression.kind) {
    case Kind::constant:
      return expression.value;
    case Kind::name:
      return name(expression.text, scope);
    case Kind::list:
      return budget().list(all(expression.parts, scope));
    case Kind::tuple:
      return budget().tuple(all(expression.parts, scope));
    case Kind::dict:
      return dict(expression, scope);
    case Kind::attribute:
    case Kind::field:
      return attribute(evaluate(*expression.parts[0], scope), expression.text);
    case Kind::item: {
      const Value value = evaluate(*expression.parts[0], scope);
      return item(value, evaluate(*expression.parts[1], scope));
    }
    case Kind::slice:
      return slice(expression, scope);
    case Kind::call: {
      const Value function = evaluate(*expression.parts[0], scope);
      const Arguments given = arguments(expression.arguments, scope);
      line_ = expression.line;
      return call(function, given);
    }
    case Kind::filter:
      return filter(expression, evaluate(*expression.parts[0], scope), scope);
    case Kind::test: {
      const Value value = evaluate(*expression.parts[0], scope);
      return Value(apply_test(*this, expression.text, value, arguments(expression.arguments, scope)));
    }
    case Kind::unary:
      return unary(expression, scope);
    case Kind::binary:
      return binary(expression, scope);
    case Kind::compare:
      return compare(expression, scope);
    case Kind::concat:
      return concat(expression, scope);
    case Kind::conditional:
      break;
  }
  if (is_true(evaluate(*expression.parts[0], scope))) return evaluate(*expression.parts[1], scope);
  if (expression.parts[2]) return evaluate(*expression.parts[2], scope);
  return undefined("the inline if-expression on line " + std::to_string(expression.line) +
                   " evaluated to false and no else section was defined.");
}

Value Interpreter::name(const std::string& name, const ScopePointer& scope) {
  for (const Scope* at = scope.get(); at != nullptr; at = at->parent.get()) {
    const auto found = at->variables.find(name);
    if (found != at->variables.end()) return found->second;
  }
  return undefined("'" + name + "' is undefined");
}

Value Interpreter::unary(const Expression& expression, const ScopePointer& scope) {
  const Value value = evaluate(*expression.parts[0], scope);
  if (expression.text == "not") return Value(!is_true(value));
  const Value negated = negative(value);  // also checks the operand of +
  return expression.text == "-" ? negated : value.is_boolean() ? Value(value.integer()) : value;
}

Value Interpreter::binary(const Expression& expression, const ScopePointer& scope) {
  const Value left = evaluate(*expression.parts[0], scope);
  if (expression.text == "and") return is_true(left) ? evaluate(*expression.parts[1], scope) : left;
  if (expression.text == "or") return is_true(left) ? left : evaluate(*expression.parts[1], scope);
  const Value right = evaluate(*expression.parts[1], scope);
  line_ = expression.line;
  return expression.text == "+" ? add(left, right, budget()) : arithmetic(expression.text, left, right, budget());
}

Value Interpreter::compare(const Expression& expression, const ScopePointer& scope) {
  const auto holds = [this](const std::string& symbol, const Value& a, const Value& b) {
    if (symbol == "==") return equal(a, b, budget());
    if (symbol == "!=") return !equal(a, b, budget());
    if (symbol == "in") return contains(b, a, budget());
    if (symbol == "not in") return !contains(b, a, budget());
    const bool is_swapped = symbol[0] == '>', or_equal = symbol.size() == 2;
    const Value &low = is_swapped ? b : a, &high = is_swapped ? a : b;
    return less(low, high, budget(), symbol) || (or_equal && equal(a, b, budget()));
  };
  Value left = evaluate(*expression.parts[0], scope);
  for (size_t i = 0; i < expression.texts.size(); ++i) {
    Value right = evaluate(*expression.parts[i + 1], scope);
    line_ = expression.line;
    if (!holds(expression.texts[i], left, right)) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Value Interpreter::concat(const Expression& expression, const ScopePointer& scope) {
  std::string text;
  for (const auto& part : expression.parts) {
    const Value value = evaluate(*part, scope);
    const std::string piece = to_text(value, budget());
    budget().check(text.size() + piece.size());
    text += piece;
  }
  return budget().text(std::move(text));
}

Value Interpreter::dict(const Expression& expression, const ScopePointer& scope) {
  Dict result;
  for (size_t i = 0; i < expression.parts.size(); i += 2) {
    const Value key = evaluate(*expression.parts[i], scope);
    result.set(key, evaluate(*expression.parts[i + 1], scope), budget());
  }
  return budget().dict(std::move(result));
}

Value Interpreter::slice(const Expression& expression, const ScopePointer& scope) {
  const Value value = evaluate(*expression.parts[0], scope);
  Value bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    if (expression.parts[i + 1]) bounds[i] = evaluate(*expression.parts[i + 1], scope);
  }
  if (value.is_undefined()) fail(value.undefined().message);
  const bool has_slices = value.is_text() || value.is_sequence() || value.as<Range>();
  if (!has_slices) fail("'", type_name(value), "' object has no slices");
  return jinja::slice(value, bounds[0], bounds[1], bounds[2], budget());
}

Values Interpreter::all(const std::vector<ExpressionPointer>& parts, const ScopePointer& scope) {
  Values values;
  values.reserve(parts.size());
  for (const auto& part : parts) values.push_back(evaluate(*part, scope));
  return values;
}

Arguments Interpreter::arguments(const CallArguments& arguments, const ScopePointer& scope) {
  Arguments result{.positional = all(arguments.positional, scope), .named = {}};
  for (const auto& [name, value] : arguments.named) {
    if (result.find(SIZE_MAX, name) != nullptr) fail("keyword argument '", name, "' is repeated");
    result.named.emplace_back(name, evaluate(*value, scope));
  }
  if (arguments.star) {
    for (Value& value : to_list(evaluate(*arguments.star, scope), budget()))
      result.positional.push_back(std::move(value));
  }
  if (arguments.double_star) {
    const Value more = evaluate(*arguments.double_star, scope);
    if (!more.is_dict()) fail("argument after ** must be a mapping, not ", type_name(more));
    for (const auto& [key, value] : more.dict().members) {
      if (!key.is_text()) fail("keywords must be strings");
      if (result.find(SIZE_MAX, key.bytes()) != nullptr) fail("keyword argument '", key.bytes(), "' is repeated");
      budget().step(1 + static_cast<int64_t>(result.named.size() / 4));
      result.named.emplace_back(key.bytes(), value);
    }
  }
  return result;
}

Value Interpreter::filter(const Expression& expression, const Value& value, const ScopePointer& scope) {
  const Arguments given = arguments(expression.arguments, scope);
  line_ = expression.line;
  return apply_filter(*this, expression.text, value, given);
}

Value Interpreter::filter_chain(const Expression& expression, const Value& value, const ScopePointer& scope) {
  const Depth depth(*this);
  const bool is_first = expression.parts[0] == nullptr;
  return filter(expression, is_first ? value : filter_chain(*expression.parts[0], value, scope), scope);
}

Value Interpreter::call(const Value& function, const Arguments& arguments) {
  const Depth depth(*this);
  if (function.is_undefined()) fail(function.undefined().message);
  if (!function.is_object()) fail("'", type_name(function), "' object is not callable");
  return function.object().call(*this, arguments);
}

/// A method or attribute; names that begin with an underscore are private.
std::optional<Value> Interpreter::member(const Value& value, const std::string& name) {
  if (name.starts_with('_')) return std::nullopt;
  return value.is_object() ? value.object().attribute(*this, name) : method(*this, value, name);
}

Value Interpreter::attribute(const Value& value, const std::string& name) {
  if (value.is_undefined()) fail(value.undefined().message);
  if (const auto found = member(value, name)) return *found;
  const Value key = plain_text(name);
  const auto found = value.is_dict() ? subscript(value, key, budget()) : std::nullopt;
  return found ? *found : missing(value, key);
}

Value Interpreter::item(const Value& value, const Value& key) {
  if (value.is_undefined()) fail(value.undefined().message);
  if (const auto found = subscript(value, key, budget())) return *found;
  const auto found = key.is_text() ? member(value, key.bytes()) : std::nullopt;
  return found ? *found : missing(value, key);
}

}  // namespace attend::jinja
