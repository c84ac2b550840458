// Python's % and str.format().

#include "chat/jinja/format.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "chat/jinja/interpreter.h"
#include "chat/jinja/operations.h"
#include "chat/jinja/strings.h"
#include "text/unicode.h"

namespace attend::jinja {
namespace {

constexpr int64_t kMostDigits = 1000;  // of a precision

/// The fields of a format: `[[fill]align][sign][#][0][width][,][.precision][type]`, or those of a % conversion.
struct Spec {
  std::string fill = " ";
  char align = 0;  // < > ^ =, or 0
  char sign = '-';
  bool has_prefix = false;
  char grouping = 0;
  int64_t width = 0, precision = -1;
  char type = 0;
};

int64_t read_number(std::string_view text, size_t& at) {
  int64_t value = 0;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
    value = std::min<int64_t>(value * 10 + (text[at++] - '0'), INT32_MAX);
  }
  return value;
}

std::string padded(std::string body, const Spec& spec, char default_align, Budget& budget) {
  const int64_t missing = spec.width - count_code_points(body);
  if (missing <= 0) return body;
  const char align = spec.align != 0 ? spec.align : default_align;
  budget.bytes(missing * static_cast<int64_t>(spec.fill.size()));
  const auto fill = [&](int64_t count) {
    std::string out;
    for (int64_t i = 0; i < count; ++i) out += spec.fill;
    return out;
  };
  if (align == '<') return body + fill(missing);
  if (align == '^') return fill(missing / 2) + body + fill(missing - missing / 2);
  if (align != '=') return fill(missing) + body;
  size_t sign = !body.empty() && std::string_view("+- ").find(body[0]) != std::string_view::npos ? 1 : 0;
  if (spec.has_prefix && body.size() > sign + 1 && body[sign] == '0' && std::isalpha(body[sign + 1])) sign += 2;
  return body.substr(0, sign) + fill(missing) + body.substr(sign);
}

std::string grouped(const std::string& number, char separator) {
  size_t end = number.find_first_not_of("0123456789");
  if (end == std::string::npos) end = number.size();
  std::string out = number;
  for (size_t at = end; at > 3; at -= 3) out.insert(at - 3, 1, separator);
  return out;
}

std::string whole_digits(uint64_t value, const Spec& spec) {
  const char type = spec.type;
  const int base = type == 'x' || type == 'X' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
  char buffer[72];
  std::string digits(buffer, std::to_chars(buffer, buffer + sizeof buffer, value, base).ptr);
  if (type == 'X')
    std::ranges::transform(digits, digits.begin(), [](char c) { return static_cast<char>(std::toupper(c)); });
  if (spec.grouping != 0 && base == 10) digits = grouped(digits, spec.grouping);
  if (spec.has_prefix && base != 10) digits = std::string("0") + type + digits;
  return digits;
}

std::string real_digits(double value, const Spec& spec) {
  if (spec.type == 0 && spec.precision < 0) return float_text(value);
  if (spec.precision > kMostDigits) fail("precision too big");
  std::string format = std::string("%") + (spec.has_prefix ? "#" : "") + ".*";
  const char type = spec.type == 0 || spec.type == 'n' ? 'g' : spec.type == '%' ? 'f' : spec.type;
  format += type;
  const double shown = spec.type == '%' ? value * 100 : value;
  const int precision = spec.precision < 0 ? 6 : static_cast<int>(spec.precision);
  const int size = std::snprintf(nullptr, 0, format.c_str(), precision, shown);
  std::string out(static_cast<size_t>(size) + 1, '\0');
  std::snprintf(out.data(), out.size(), format.c_str(), precision, shown);
  out.pop_back();
  if (spec.type == 0 && std::isfinite(value) && out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

std::string format_number(const Value& value, const Spec& spec, Budget& budget) {
  const bool wants_real = std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos && spec.type != 0;
  std::string digits;
  bool is_negative = false;
  if (value.is_real() || wants_real) {
    is_negative = std::signbit(value.real()) && !std::isnan(value.real());
    digits = real_digits(std::abs(value.real()), spec);
    if (spec.grouping != 0) digits = grouped(digits, spec.grouping);
    if (spec.type == '%') digits += '%';
  } else {
    is_negative = value.integer() < 0;
    const auto bits = static_cast<uint64_t>(value.integer());
    digits = whole_digits(is_negative ? ~bits + 1 : bits, spec);
  }
  const std::string sign = is_negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  return padded(sign + digits, spec, '>', budget);
}

std::string format_text(std::string text, const Spec& spec, Budget& budget) {
  if (spec.precision >= 0) text.resize(byte_offset(text, spec.precision));
  return padded(std::move(text), spec, '<', budget);
}

/// Reads the format after ':' of a replacement field.
Spec parse_spec(std::string_view text) {
  Spec spec;
  size_t at = 0;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  const size_t first = text.empty() ? 0 : text::utf8_length(text[0]);
  if (first < text.size() && is_align(text[first])) {
    spec.fill = text.substr(0, first);
    spec.align = text[first];
    at = first + 1;
  } else if (!text.empty() && is_align(text[0])) {
    spec.align = text[at++];
  }
  const auto take = [&](char c) { return at < text.size() && text[at] == c ? ++at, true : false; };
  for (const char sign : {'+', '-', ' '}) {
    if (take(sign)) {
      spec.sign = sign;
      break;
    }
  }
  spec.has_prefix = take('#');
  if (take('0') && spec.align == 0) spec.fill = "0", spec.align = '=';
  spec.width = read_number(text, at);
  if (take(','))
    spec.grouping = ',';
  else if (take('_'))
    spec.grouping = '_';
  if (take('.')) spec.precision = read_number(text, at);
  if (at < text.size()) spec.type = text[at++];
  if (at != text.size()) fail("Invalid format specifier");
  return spec;
}

std::string format_by_spec(const Value& value, std::string_view text, Budget& budget) {
  if (text.empty()) return to_text(value, budget);
  Spec spec = parse_spec(text);
  if (value.is_text()) {
    if (spec.type != 0 && spec.type != 's') fail("Unknown format code '", spec.type, "' for object of type 'str'");
    return format_text(value.bytes(), spec, budget);
  }
  if (!value.is_number()) fail("unsupported format string passed to ", type_name(value), ".__format__");
  const std::string_view known = value.is_real() ? "eEfFgGn%" : "bcdeEfFgGnoxX%";
  if (spec.type != 0 && known.find(spec.type) == std::string_view::npos) {
    fail("Unknown format code '", spec.type, "' for object of type '", type_name(value), "'");
  }
  if (spec.type == 'c')
    return format_text(to_utf8(std::u32string(1, static_cast<char32_t>(value.integer()))), spec, budget);
  return format_number(value, spec, budget);
}

/// Reads the arguments of % one after another, or by name.
class PercentValues {
 public:
  PercentValues(const Value& values, Budget& budget) : values_(values), budget_(budget) {}
  Value next() {
    if (!values_.is_tuple()) {
      if (std::exchange(at_, 1) == 1) fail("not enough arguments for format string");
      return values_;
    }
    if (at_ == values_.items().size()) fail("not enough arguments for format string");
    return values_.items()[at_++];
  }
  Value named(std::string_view name) {
    if (!values_.is_dict()) fail("format requires a mapping");
    const Value* found = values_.dict().find(name);
    if (found == nullptr) fail("format: there is no key '", name, "'");
    is_by_name_ = true;
    return *found;
  }
  void finish() const {
    const bool is_used_up = values_.is_tuple() ? at_ == values_.items().size() : at_ == 1;
    const bool may_be_left = is_by_name_ || values_.is_dict() || values_.is_list();
    if (!is_used_up && !may_be_left) fail("not all arguments converted during string formatting");
  }

 private:
  const Value& values_;
  Budget& budget_;
  size_t at_ = 0;
  bool is_by_name_ = false;
};

std::string percent_number(const Value& value, Spec spec, Budget& budget) {
  if (value.is_undefined()) fail(value.undefined().message);
  if (!value.is_number()) fail("%", spec.type, " format: a real number is required, not ", type_name(value));
  const bool is_whole = std::string_view("diuxXo").find(spec.type) != std::string_view::npos;
  if (!is_whole) return format_number(value, spec, budget);
  Value whole = value;
  if (value.is_real()) {
    if (std::string_view("xXo").find(spec.type) != std::string_view::npos) {
      fail("%", spec.type, " format: an integer is required, not float");
    }
    if (!(std::abs(value.real()) < 0x1p63)) fail("cannot convert a float to an integer");
    whole = Value(static_cast<int64_t>(value.real()));
  }
  if (std::string_view("iu").find(spec.type) != std::string_view::npos) spec.type = 'd';
  if (spec.precision > kMostDigits) fail("precision too big");
  Spec digits{.fill = "0", .align = '=', .sign = spec.sign, .has_prefix = spec.has_prefix, .type = spec.type};
  digits.width = std::max<int64_t>(spec.precision, 0) + (whole.integer() < 0 || spec.sign != '-' ? 1 : 0);
  return padded(format_number(whole, digits, budget), spec, '>', budget);
}

std::string percent_conversion(const Value& value, Spec spec, bool is_markup, Budget& budget) {
  const auto text = [&](std::string plain) { return is_markup && !value.is_markup() ? html_escaped(plain) : plain; };
  if (spec.align == '=') spec.fill = "0";
  const bool is_text = spec.type == 's' || spec.type == 'r' || spec.type == 'a' || spec.type == 'c';
  if (!is_text) return percent_number(value, spec, budget);
  if (spec.align == '=') spec.align = '>', spec.fill = " ";
  if (spec.align == 0) spec.align = '>';
  if (spec.type == 's') return format_text(text(to_text(value, budget)), spec, budget);
  if (spec.type != 'c') return format_text(text(represent(value, budget)), spec, budget);
  if (value.is_text() && value.text().length == 1) return format_text(text(value.bytes()), spec, budget);
  if (!value.is_whole() || value.integer() < 0 || value.integer() > 0x10ffff) fail("%c requires int or char");
  std::string out;
  append_utf8(out, static_cast<char32_t>(value.integer()));
  return format_text(text(out), spec, budget);
}

/// Reads a conversion after '%': flags, width, precision, type.
Spec parse_conversion(std::string_view text, size_t& at, PercentValues& values) {
  Spec spec;
  for (; at < text.size() && std::string_view("-+ #0").find(text[at]) != std::string_view::npos; ++at) {
    if (text[at] == '-') spec.align = '<';
    if (text[at] == '0' && spec.align == 0) spec.align = '=';
    if (text[at] == '+' || (text[at] == ' ' && spec.sign == '-')) spec.sign = text[at];
    if (text[at] == '#') spec.has_prefix = true;
  }
  const auto number = [&] {
    if (at < text.size() && text[at] == '*') return ++at, whole_number(values.next(), "* in a format");
    return read_number(text, at);
  };
  spec.width = number();
  if (spec.width < 0) spec.align = '<', spec.width = spec.width == INT64_MIN ? INT64_MAX : -spec.width;
  if (at < text.size() && text[at] == '.') spec.precision = std::max<int64_t>((++at, number()), 0);
  while (at < text.size() && std::string_view("hlL").find(text[at]) != std::string_view::npos) ++at;
  if (at == text.size()) fail("incomplete format");
  spec.type = text[at++];
  if (std::string_view("diuoxXeEfFgGcrsa%").find(spec.type) == std::string_view::npos) {
    fail("unsupported format character '", spec.type, "'");
  }
  return spec;
}

}  // namespace

Value format_percent(const Value& text, const Value& values, Budget& budget) {
  const std::string& format = text.bytes();
  PercentValues arguments(values, budget);
  std::string out;
  for (size_t at = 0; at < format.size();) {
    budget.step();
    if (format[at] != '%') {
      out += format[at++];
      continue;
    }
    std::optional<Value> named;
    if (++at < format.size() && format[at] == '(') {
      const size_t end = format.find(')', at);
      if (end == std::string::npos) fail("incomplete format key");
      named = arguments.named(std::string_view(format).substr(at + 1, end - at - 1));
      at = end + 1;
    }
    const Spec spec = parse_conversion(format, at, arguments);
    const std::string part =
        spec.type == '%' ? "%" : percent_conversion(named ? *named : arguments.next(), spec, text.is_markup(), budget);
    budget.check(out.size() + part.size());
    out += part;
  }
  arguments.finish();
  return budget.text(std::move(out), text.is_markup());
}

namespace {

/// The value of a replacement field: `0`, `name`, `name.attribute`, `0[key]`; an empty name counts.
Value field_value(std::string_view field, const Arguments& arguments, size_t& automatic, Interpreter& interpreter) {
  const size_t end = std::min(field.find_first_of(".["), field.size());
  const std::string_view first = field.substr(0, end);
  Value value;
  const bool is_index = std::ranges::all_of(first, [](char c) { return c >= '0' && c <= '9'; });
  size_t digits = 0;
  const size_t place = first.empty() ? automatic++ : static_cast<size_t>(is_index ? read_number(first, digits) : 0);
  if (is_index) {
    if (place >= arguments.positional.size()) {
      fail("Replacement index ", place, " out of range for positional args tuple");
    }
    value = arguments.positional[place];
  } else {
    const Value* found = arguments.find(SIZE_MAX, first);
    if (found == nullptr) fail("format: there is no argument '", first, "'");
    value = *found;
  }
  for (size_t at = end; at < field.size();) {
    const bool is_attribute = field[at++] == '.';
    const size_t stop = is_attribute ? field.find_first_of(".[", at) : field.find(']', at);
    if (!is_attribute && stop == std::string_view::npos) fail("Missing ']' in format string");
    const std::string_view name = field.substr(at, stop == std::string_view::npos ? stop : stop - at);
    if (name.empty()) fail("Empty attribute in format string");
    const auto index = is_attribute ? std::nullopt : parse_integer(name, 10);
    value = is_attribute ? interpreter.attribute(value, std::string(name))
                         : interpreter.item(value, index ? Value(*index) : plain_text(std::string(name)));
    if (value.is_undefined()) fail(value.undefined().message);
    at = stop == std::string_view::npos ? field.size() : stop + (is_attribute ? 0 : 1);
  }
  return value;
}

class Formatter {
 public:
  Formatter(const Arguments& arguments, bool is_markup, Interpreter& interpreter)
      : arguments_(arguments), is_markup_(is_markup), interpreter_(interpreter) {}

  std::string format(std::string_view text, int level) {
    if (level > 2) fail("Max string recursion exceeded");
    std::string out;
    for (size_t at = 0; at < text.size();) {
      interpreter_.budget().step();
      const char c = text[at];
      if ((c == '{' || c == '}') && at + 1 < text.size() && text[at + 1] == c) {
        out += c;
        at += 2;
      } else if (c == '}') {
        fail("Single '}' encountered in format string");
      } else if (c == '{') {
        const size_t end = field_end(text, at + 1);
        const std::string part = replacement(text.substr(at + 1, end - at - 1), level);
        interpreter_.budget().check(out.size() + part.size());
        out += part;
        at = end + 1;
      } else {
        out += text[at++];
      }
    }
    return out;
  }

 private:
  static size_t field_end(std::string_view text, size_t at) {
    for (int open = 1; at < text.size(); ++at) {
      if (text[at] == '{') ++open;
      if (text[at] == '}' && --open == 0) return at;
    }
    fail("expected '}' before end of string");
  }
  std::string replacement(std::string_view field, int level) {
    const size_t colon = std::min(field.find(':'), field.size());
    std::string_view name = field.substr(0, colon);
    char conversion = 0;
    if (const size_t mark = name.find('!'); mark != std::string_view::npos) {
      if (mark + 2 != name.size()) fail("expected one letter after '!' in a format string");
      conversion = name[mark + 1];
      name = name.substr(0, mark);
    }
    Budget& budget = interpreter_.budget();
    Value value = field_value(name, arguments_, automatic_, interpreter_);
    const std::string spec = colon < field.size() ? format(field.substr(colon + 1), level + 1) : "";
    const bool was_markup = value.is_markup();
    if (conversion == 'r' || conversion == 'a')
      value = budget.text(represent(value, budget));
    else if (conversion == 's')
      value = budget.text(to_text(value, budget));
    else if (conversion != 0)
      fail("Unknown conversion specifier ", conversion);
    const std::string text = format_by_spec(value, spec, budget);
    return is_markup_ && !was_markup ? html_escaped(text) : text;
  }

  const Arguments& arguments_;
  bool is_markup_;
  Interpreter& interpreter_;
  size_t automatic_ = 0;
};

}  // namespace

Value format_braces(const Value& text, const Arguments& arguments, Interpreter& interpreter) {
  Formatter formatter(arguments, text.is_markup(), interpreter);
  return interpreter.budget().text(formatter.format(text.bytes(), 0), text.is_markup());
}

}  // namespace attend::jinja
