#include "chat/jinja/operations.h"

#include <algorithm>
#include <cmath>

#include "chat/jinja/strings.h"

namespace attend::jinja {
namespace {

/// A use of an undefined value that needs a value.
void require_defined(const Value& a, const Value& b) {
  if (a.is_undefined()) fail(a.undefined().message);
  if (b.is_undefined()) fail(b.undefined().message);
}

[[noreturn]] void too_large() { fail("integers beyond 64 bits are not supported"); }

bool equal_dicts(const Dict& a, const Dict& b, Budget& budget) {
  if (a.members.size() != b.members.size()) return false;
  return std::ranges::all_of(a.members, [&](const auto& member) {
    const Value* other = b.find(member.first, budget);
    return other != nullptr && equal(member.second, *other, budget);
  });
}

int64_t whole(std::string_view symbol, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflows = false;
  if (symbol == "+") {
    overflows = __builtin_add_overflow(a, b, &result);
  } else if (symbol == "-") {
    overflows = __builtin_sub_overflow(a, b, &result);
  } else if (symbol == "*") {
    overflows = __builtin_mul_overflow(a, b, &result);
  } else {
    if (b == 0) fail("integer division or modulo by zero");
    if (b == -1) {
      if (symbol == "%") return 0;
      if (a == INT64_MIN) too_large();
      return -a;
    }
    const int64_t quotient = a / b - ((a % b != 0 && (a % b < 0) != (b < 0)) ? 1 : 0);
    return symbol == "//" ? quotient : a - quotient * b;
  }
  if (overflows) too_large();
  return result;
}

Value power(const Value& a, const Value& b) {
  if (a.is_whole() && b.is_whole() && b.integer() >= 0) {
    int64_t base = a.integer(), result = 1;
    int64_t exponent = b.integer();
    if (base == 1 || base == 0) return Value(exponent == 0 ? int64_t{1} : base);
    if (base == -1) return Value(int64_t{exponent % 2 == 0 ? 1 : -1});
    for (; exponent > 0; --exponent) {  // at most 63 rounds: then it overflows
      if (__builtin_mul_overflow(result, base, &result)) too_large();
    }
    return Value(result);
  }
  if (a.real() == 0 && b.real() < 0) fail("0.0 cannot be raised to a negative power");
  if (a.real() < 0 && std::trunc(b.real()) != b.real()) fail("complex numbers are not supported");
  const double result = std::pow(a.real(), b.real());
  if (std::isinf(result) && std::isfinite(a.real()) && std::isfinite(b.real())) fail("the result of ** is too large");
  return Value(result);
}

Value real(std::string_view symbol, double a, double b) {
  if (symbol == "+") return Value(a + b);
  if (symbol == "-") return Value(a - b);
  if (symbol == "*") return Value(a * b);
  if (b == 0) fail("float division by zero");
  if (symbol == "/") return Value(a / b);
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  if (symbol == "%") return Value(rest == 0 ? std::copysign(0.0, b) : rest);
  const double quotient = (a - rest) / b, floor = std::floor(quotient);
  return Value(quotient - floor > 0.5 ? floor + 1 : floor);
}

Value repeat(const Value& value, int64_t count, Budget& budget) {
  const auto size = static_cast<int64_t>(value.is_text() ? value.bytes().size() : value.items().size() * sizeof(Value));
  count = size == 0 ? 0 : std::max<int64_t>(count, 0);
  budget.check(count > 0 && size > INT64_MAX / count ? SIZE_MAX : static_cast<size_t>(size * count));
  if (value.is_text()) {
    std::string out;
    out.reserve(static_cast<size_t>(size * count));
    for (int64_t i = 0; i < count; ++i) out += value.bytes();
    return budget.text(std::move(out), value.is_markup());
  }
  Values items;
  for (int64_t i = 0; i < count; ++i) items.insert(items.end(), value.items().begin(), value.items().end());
  return value.is_list() ? budget.list(std::move(items)) : budget.tuple(std::move(items));
}

[[noreturn]] void unsupported(std::string_view symbol, const Value& a, const Value& b) {
  if (symbol == "+" && a.is_text()) {
    fail("can only concatenate str (not \"", type_name(b), "\") to str");
  }
  fail("unsupported operand type(s) for ", symbol, ": '", type_name(a), "' and '", type_name(b), "'");
}

}  // namespace

bool is_true(const Value& value) {
  if (value.is_none() || value.is_undefined()) return false;
  if (value.is_whole()) return value.integer() != 0;
  if (value.is_real()) return value.real() != 0;
  if (value.is_text()) return !value.bytes().empty();
  if (value.is_sequence()) return !value.items().empty();
  return value.is_dict() ? !value.dict().members.empty() : value.object().is_true();
}

bool equal(const Value& a, const Value& b, Budget& budget) {
  budget.step();
  if (a.is_whole() && b.is_whole()) return a.integer() == b.integer();
  if (a.is_number() && b.is_number()) return a.real() == b.real();
  if (a.is_text() && b.is_text()) {
    budget.step(static_cast<int64_t>(std::min(a.bytes().size(), b.bytes().size()) / 64));
    return a.bytes() == b.bytes();
  }
  if ((a.is_list() && b.is_list()) || (a.is_tuple() && b.is_tuple())) {
    return std::ranges::equal(a.items(), b.items(),
                              [&](const Value& x, const Value& y) { return equal(x, y, budget); });
  }
  if (a.is_dict() && b.is_dict()) return equal_dicts(a.dict(), b.dict(), budget);
  if (a.is_object() && b.is_object()) {
    const auto x = a.as<Range>(), y = b.as<Range>();
    if (x && y) return equal(budget.list(to_list(a, budget)), budget.list(to_list(b, budget)), budget);
    return &a.object() == &b.object();
  }
  return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
}

bool less(const Value& a, const Value& b, Budget& budget, std::string_view symbol) {
  budget.step();
  require_defined(a, b);
  if (a.is_whole() && b.is_whole()) return a.integer() < b.integer();
  if (a.is_number() && b.is_number()) return a.real() < b.real();
  if (a.is_text() && b.is_text()) {
    budget.step(static_cast<int64_t>(std::min(a.bytes().size(), b.bytes().size()) / 64));
    return a.bytes() < b.bytes();  // the order of UTF-8 is that of code points
  }
  const bool both_sequences = (a.is_list() && b.is_list()) || (a.is_tuple() && b.is_tuple());
  if (!both_sequences) {
    fail("'", symbol, "' not supported between instances of '", type_name(a), "' and '", type_name(b), "'");
  }
  const size_t common = std::min(a.items().size(), b.items().size());
  for (size_t i = 0; i < common; ++i) {
    if (!equal(a.items()[i], b.items()[i], budget)) return less(a.items()[i], b.items()[i], budget, symbol);
  }
  return a.items().size() < b.items().size();
}

bool contains(const Value& container, const Value& item, Budget& budget) {
  budget.step();
  if (container.is_undefined()) return false;
  if (container.is_text()) {
    if (item.is_undefined()) fail(item.undefined().message);
    if (!item.is_text()) fail("'in <string>' requires string as left operand, not ", type_name(item));
    budget.step(static_cast<int64_t>(container.bytes().size() / 16));
    return find_text(container.bytes(), item.bytes()) != std::string::npos;
  }
  if (container.is_dict()) return container.dict().find(item, budget) != nullptr;
  if (!is_iterable(container)) fail("argument of type '", type_name(container), "' is not iterable");
  const Next next = iterate(container, budget);
  while (const auto value = next()) {
    if (value->is_same(item) || equal(*value, item, budget)) return true;
  }
  return false;
}

Value add(const Value& a, const Value& b, Budget& budget) {
  if (a.is_text() && b.is_text()) {
    const bool is_markup = a.is_markup() || b.is_markup();
    const auto part = [&](const Value& x) { return is_markup && !x.is_markup() ? html_escaped(x.bytes()) : x.bytes(); };
    budget.check(a.bytes().size() + b.bytes().size());
    return budget.text(part(a) + part(b), is_markup);
  }
  if ((a.is_list() && b.is_list()) || (a.is_tuple() && b.is_tuple())) {
    Values items = a.items();
    items.insert(items.end(), b.items().begin(), b.items().end());
    return a.is_list() ? budget.list(std::move(items)) : budget.tuple(std::move(items));
  }
  return arithmetic("+", a, b, budget);
}

Value arithmetic(std::string_view symbol, const Value& a, const Value& b, Budget& budget) {
  if (symbol == "%" && a.is_text()) return format_percent(a, b, budget);
  require_defined(a, b);
  if (symbol == "*") {
    if ((a.is_text() || a.is_sequence()) && b.is_whole()) return repeat(a, b.integer(), budget);
    if ((b.is_text() || b.is_sequence()) && a.is_whole()) return repeat(b, a.integer(), budget);
  }
  if (!a.is_number() || !b.is_number()) unsupported(symbol, a, b);
  if (symbol == "**") return power(a, b);
  if (a.is_whole() && b.is_whole() && symbol != "/") return Value(whole(symbol, a.integer(), b.integer()));
  if (symbol == "/" && b.real() == 0) fail("division by zero");
  return real(symbol, a.real(), b.real());
}

Value negative(const Value& value) {
  if (value.is_undefined()) fail(value.undefined().message);
  if (value.is_real()) return Value(-value.real());
  if (!value.is_whole()) fail("bad operand type for unary -: '", type_name(value), "'");
  if (value.integer() == INT64_MIN) too_large();
  return Value(-value.integer());
}

int64_t whole_number(const Value& value, std::string_view what) {
  if (value.is_undefined()) fail(value.undefined().message);
  if (!value.is_whole()) fail(what, " must be an integer, not ", type_name(value));
  return value.integer();
}

}  // namespace attend::jinja
