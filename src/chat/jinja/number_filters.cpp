#include <cmath>
#include <cstdio>
#include <string>

#include "chat/jinja/filters.h"
#include "chat/jinja/interpreter.h"
#include "chat/jinja/operations.h"
#include "chat/jinja/strings.h"

namespace attend::jinja {
namespace {

using Given = const Arguments&;

Value absolute(Interpreter&, const Value& value, Given arguments) {
  arguments.check("abs", 0);
  if (value.is_real()) return Value(std::abs(value.real()));
  if (!value.is_whole()) fail("bad operand type for abs(): '", type_name(value), "'");
  return value.integer() < 0 ? negative(value) : Value(value.integer());
}

/// The integer part of a finite float in the range of 64 bits.
std::optional<int64_t> truncated(double value) {
  if (!std::isfinite(value)) return std::nullopt;
  if (std::abs(value) >= 0x1p63) fail("integers beyond 64 bits are not supported");
  return static_cast<int64_t>(value);
}

Value to_integer(Interpreter&, const Value& value, Given arguments) {
  arguments.check("int", 2, {"default", "base"});
  const Value *otherwise = arguments.find(0, "default"), *base = arguments.find(1, "base");
  if (value.is_undefined()) fail(value.undefined().message);
  std::optional<int64_t> result;
  if (value.is_text()) {
    result = parse_integer(value.bytes(), base == nullptr ? 10 : whole_number(*base, "base"));
    const auto number = result ? std::nullopt : parse_float(value.bytes());
    if (number) result = truncated(*number);
  } else if (value.is_whole()) {
    result = value.integer();
  } else if (value.is_real()) {
    result = truncated(value.real());
  }
  return result ? Value(*result) : otherwise == nullptr ? Value(int64_t{0}) : *otherwise;
}

Value to_float(Interpreter&, const Value& value, Given arguments) {
  arguments.check("float", 1, {"default"});
  const Value* otherwise = arguments.find(0, "default");
  if (value.is_undefined()) fail(value.undefined().message);
  if (value.is_number()) return Value(value.real());
  const auto number = value.is_text() ? parse_float(value.bytes()) : std::nullopt;
  return number ? Value(*number) : otherwise == nullptr ? Value(0.0) : *otherwise;
}

/// round(value, precision) of Python: half to even, by the exact decimal digits.
Value rounded(const Value& value, int64_t precision) {
  if (value.is_whole()) {
    if (precision >= 0) return Value(value.integer());
    if (precision < -18) return Value(int64_t{0});
    int64_t unit = 1;
    for (int64_t i = precision; i < 0; ++i) unit *= 10;
    const int64_t number = value.integer(), rest = ((number % unit) + unit) % unit,
                  low = number / unit * unit - (number % unit < 0 ? unit : 0);
    const bool rounds_up = rest > unit - rest || (rest == unit - rest && (low / unit) % 2 != 0);
    int64_t result = 0;
    if (__builtin_add_overflow(low, rounds_up ? unit : 0, &result)) fail("integers beyond 64 bits are not supported");
    return Value(result);
  }
  const double number = value.real();
  if (!std::isfinite(number) || precision > 400) return value;
  if (precision < -310) return Value(std::copysign(0.0, number));
  if (precision < 0) {
    const double unit = std::pow(10.0, static_cast<double>(-precision));
    return Value(std::nearbyint(number / unit) * unit);
  }
  const int size = std::snprintf(nullptr, 0, "%.*f", static_cast<int>(precision), number);
  std::string text(static_cast<size_t>(size) + 1, '\0');
  std::snprintf(text.data(), text.size(), "%.*f", static_cast<int>(precision), number);
  return Value(std::strtod(text.c_str(), nullptr));
}

Value round(Interpreter&, const Value& value, Given arguments) {
  arguments.check("round", 2, {"precision", "method"});
  const Value *precision = arguments.find(0, "precision"), *method = arguments.find(1, "method");
  const int64_t digits = precision == nullptr ? 0 : whole_number(*precision, "precision");
  const std::string name = method == nullptr ? "common" : method->is_text() ? method->bytes() : "";
  if (value.is_undefined()) fail(value.undefined().message);
  if (!value.is_number()) fail("type ", type_name(value), " doesn't define __round__ method");
  if (name == "common") return rounded(value, digits);
  if (name != "ceil" && name != "floor") fail("method must be common, ceil or floor");
  const double unit = std::pow(10.0, static_cast<double>(digits)), scaled = value.real() * unit;
  if (!std::isfinite(scaled)) fail("cannot round this number");
  return Value((name == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit);
}

}  // namespace

void add_number_filters(FilterTable& table) {
  table.insert({{"abs", absolute}, {"int", to_integer}, {"float", to_float}, {"round", round}});
}

}  // namespace attend::jinja
