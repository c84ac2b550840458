#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/jinja/value.h"

// Python's str functions on valid UTF-8. Positions and lengths count code points unless they are called bytes.
namespace attend::jinja {

int64_t count_code_points(std::string_view text);
/// The code points of a text, each as its bytes.
std::vector<std::string_view> characters(std::string_view text);
/// Offset in bytes of the code point at `index`; the size of the text if it has fewer.
size_t byte_offset(std::string_view text, int64_t index);

/// str.isspace() of one character: Unicode spaces and the control characters U+001C to U+001F.
bool is_python_space(char32_t code);
/// Number of bytes of spaces at the start.
size_t leading_spaces(std::string_view text);
/// The text without trailing spaces.
std::string_view without_trailing_spaces(std::string_view text);

enum class Side { left, right, both };
/// str.strip(), lstrip() or rstrip(); `chars`: characters to remove instead of spaces.
std::string_view strip(std::string_view text, std::optional<std::string_view> chars, Side side);

/// Offset in bytes of the first occurrence at or after `from`, or npos. Its time is linear in the text, whatever it is.
size_t find_text(std::string_view text, std::string_view part, size_t from = 0);
/// Offset of the last occurrence, or npos.
size_t find_last_text(std::string_view text, std::string_view part);
int64_t count_text(std::string_view text, std::string_view part);
/// str.replace(); count < 0: all.
std::string replace_text(std::string_view text, std::string_view from, std::string_view to, int64_t count,
                         Budget& budget);

using Parts = std::vector<std::string_view>;
/// str.split() and rsplit(); without separator at runs of spaces. most < 0: no limit.
Parts split(std::string_view text, std::optional<std::string_view> separator, int64_t most);
Parts rsplit(std::string_view text, std::optional<std::string_view> separator, int64_t most);
Parts split_lines(std::string_view text, bool keep_ends);

std::string upper_case_of(std::string_view text);
std::string lower_case_of(std::string_view text);
std::string folded_case(std::string_view text);
std::string capitalized(std::string_view text);
std::string title_case_of(std::string_view text);
std::string swapped_case(std::string_view text);

/// str.isalpha(), isdigit()…; the name without "is". nullopt if there is no such method.
std::optional<bool> has_property(std::string_view text, std::string_view name);

/// Characters & < > ' " as HTML entities.
std::string html_escaped(std::string_view text);
/// repr() of a float: the shortest text that reads back as the same number.
std::string float_text(double value);
/// repr() of a str.
std::string python_quoted(std::string_view text);
/// int(text, base); nullopt if it is not a number. Throws FormatError beyond 64 bits.
std::optional<int64_t> parse_integer(std::string_view text, int64_t base);
/// float(text); nullopt if it is not a number.
std::optional<double> parse_float(std::string_view text);

}  // namespace attend::jinja
