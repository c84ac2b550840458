#pragma once

#include <string>
#include <string_view>

#include "chat/jinja/objects.h"
#include "chat/jinja/value.h"

// Python's operators and conversions on values.
namespace attend::jinja {

bool is_true(const Value& value);
bool equal(const Value& a, const Value& b, Budget& budget);
/// a < b. Throws FormatError if the values have no order; `symbol` is the operator in the message.
bool less(const Value& a, const Value& b, Budget& budget, std::string_view symbol = "<");
/// `item in container`.
bool contains(const Value& container, const Value& item, Budget& budget);

Value add(const Value& a, const Value& b, Budget& budget);
/// - / // * % ** and +.
Value arithmetic(std::string_view symbol, const Value& a, const Value& b, Budget& budget);
Value negative(const Value& value);
/// `template % values`.
Value format_percent(const Value& text, const Value& values, Budget& budget);

/// str(value).
std::string to_text(const Value& value, Budget& budget);
/// str(value) as a Value; text stays the same object.
Value soft_text(const Value& value, Budget& budget);
std::string represent(const Value& value, Budget& budget);

struct JsonStyle {
  bool only_ascii = false, sort_keys = false;
  std::string indent;      ///< one level
  bool has_lines = false;  ///< each item on its own line
  std::string item_separator = ", ", key_separator = ": ";
};
/// json.dumps(). Throws FormatError for values that have no JSON.
std::string to_json(const Value& value, const JsonStyle& style, Budget& budget);

/// len(). Throws FormatError if the value has none.
int64_t length_of(const Value& value);
/// iter(). Throws FormatError if the value cannot be iterated.
Next iterate(const Value& value, Budget& budget);
bool is_iterable(const Value& value);
/// list(value).
Values to_list(const Value& value, Budget& budget);
/// reversed(value).
Values reversed(const Value& value, Budget& budget);
/// A text, range, list or tuple with bounds; None: left out.
Value slice(const Value& value, const Value& start, const Value& stop, const Value& step, Budget& budget);
/// int: True and False count as numbers. Throws FormatError with `what` for anything else.
int64_t whole_number(const Value& value, std::string_view what);

Value make_generator(Next next, const char* type, int nesting);

}  // namespace attend::jinja
