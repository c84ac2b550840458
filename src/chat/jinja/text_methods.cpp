#include <algorithm>
#include <map>

#include "chat/jinja/format.h"
#include "chat/jinja/interpreter.h"
#include "chat/jinja/methods.h"
#include "chat/jinja/operations.h"
#include "chat/jinja/strings.h"
#include "text/unicode.h"

namespace attend::jinja {
namespace {

using Given = const Arguments&;
constexpr size_t kNone = std::string::npos;

/// Pays for reading a text.
const std::string& read(Interpreter& interpreter, const Value& self) {
  interpreter.budget().step(static_cast<int64_t>(self.bytes().size() / 16));
  return self.bytes();
}
const Value& needed(Given arguments, size_t place, const char* function, std::string_view name = "") {
  const Value* found = arguments.find(place, name);
  if (found == nullptr) fail(function, "() needs ", place + 1, " argument", place > 0 ? "s" : "");
  return *found;
}
const std::string& text_of(const Value& value, const char* function) {
  if (value.is_undefined()) fail(value.undefined().message);
  if (!value.is_text()) fail(function, "(): expected str, got ", type_name(value));
  return value.bytes();
}
/// An optional text argument; None counts as left out.
std::optional<std::string_view> optional_text(Given arguments, size_t place, const char* name, const char* function) {
  const Value* found = arguments.find(place, name);
  if (found == nullptr || found->is_none()) return std::nullopt;
  return text_of(*found, function);
}
int64_t optional_integer(Given arguments, size_t place, const char* name, int64_t otherwise) {
  const Value* found = arguments.find(place, name);
  return found == nullptr ? otherwise : whole_number(*found, name);
}
/// Text that becomes a part of `self`: escaped if self is markup and the text is not.
std::string part_of(const Value& self, const Value& text) {
  return self.is_markup() && !text.is_markup() ? html_escaped(text.bytes()) : text.bytes();
}
Value like(Interpreter& interpreter, const Value& self, std::string text) {
  return interpreter.budget().text(std::move(text), self.is_markup());
}
Value list_of(Interpreter& interpreter, const Value& self, const Parts& parts) {
  Values items;
  interpreter.budget().bytes(static_cast<int64_t>(parts.size() * (sizeof(Value) + sizeof(Text))));
  for (const std::string_view part : parts) items.push_back(like(interpreter, self, std::string(part)));
  return interpreter.budget().list(std::move(items));
}

template <std::string (*map)(std::string_view)>
Value mapped(Interpreter& interpreter, const Value& self, Given arguments) {
  arguments.check("a method of str", 0);
  return like(interpreter, self, map(read(interpreter, self)));
}

template <Side side>
Value strip_method(Interpreter& interpreter, const Value& self, Given arguments) {
  arguments.check("strip", 1);
  const auto chars = optional_text(arguments, 0, "", "strip");
  return like(interpreter, self, std::string(strip(read(interpreter, self), chars, side)));
}

template <Parts (*cut)(std::string_view, std::optional<std::string_view>, int64_t)>
Value split_method(Interpreter& interpreter, const Value& self, Given arguments) {
  arguments.check("split", 2, {"sep", "maxsplit"});
  const auto separator = optional_text(arguments, 0, "sep", "split");
  return list_of(interpreter, self,
                 cut(read(interpreter, self), separator, optional_integer(arguments, 1, "maxsplit", -1)));
}
Value split_lines_method(Interpreter& interpreter, const Value& self, Given arguments) {
  arguments.check("splitlines", 1, {"keepends"});
  const Value* keep = arguments.find(0, "keepends");
  return list_of(interpreter, self, split_lines(read(interpreter, self), keep != nullptr && is_true(*keep)));
}

/// A part of a text between optional positions, in bytes. nullopt if the start lies behind the end.
struct Window {
  std::string_view text;
  size_t begin = 0;
  bool is_valid = true;
};
Window window(Interpreter& interpreter, const Value& self, Given arguments) {
  const int64_t length = self.text().length;
  const auto place = [&](size_t at, int64_t otherwise) {
    const Value* given = arguments.find(at, "");
    if (given == nullptr || given->is_none()) return otherwise;
    const int64_t index = whole_number(*given, "a position");
    return index < 0 ? std::max<int64_t>(index + length, 0) : index;
  };
  const std::string_view text = read(interpreter, self);
  const int64_t first = place(1, 0), last = std::min(place(2, length), length);
  if (first > length || first > last) return {.text = "", .is_valid = false};
  const size_t begin = byte_offset(text, first);
  return {.text = text.substr(begin, byte_offset(text, last) - begin), .begin = begin};
}

/// startswith and endswith: one text, or a tuple of them.
template <bool at_start>
Value affix_method(Interpreter& interpreter, const Value& self, Given arguments) {
  const char* name = at_start ? "startswith" : "endswith";
  arguments.check(name, 3);
  const Value& affix = needed(arguments, 0, name);
  const Window in = window(interpreter, self, arguments);
  const auto fits = [&](const Value& value) {
    const std::string& text = text_of(value, name);
    return in.is_valid && (at_start ? in.text.starts_with(text) : in.text.ends_with(text));
  };
  if (affix.is_tuple()) return Value(std::ranges::any_of(affix.items(), fits));
  return Value(fits(affix));
}

template <bool is_last, bool must_exist>
Value find_method(Interpreter& interpreter, const Value& self, Given arguments) {
  arguments.check("find", 3);
  const std::string& part = text_of(needed(arguments, 0, "find"), "find");
  const Window in = window(interpreter, self, arguments);
  const size_t found = !in.is_valid ? kNone : is_last ? find_last_text(in.text, part) : find_text(in.text, part);
  if (found == kNone && must_exist) fail("substring not found");
  if (found == kNone) return Value(int64_t{-1});
  return Value(count_code_points(std::string_view(self.bytes()).substr(0, in.begin + found)));
}
Value count_method(Interpreter& interpreter, const Value& self, Given arguments) {
  arguments.check("count", 3);
  const std::string& part = text_of(needed(arguments, 0, "count"), "count");
  const Window in = window(interpreter, self, arguments);
  return Value(in.is_valid ? count_text(in.text, part) : int64_t{0});
}

Value replace_method(Interpreter& interpreter, const Value& self, Given arguments) {
  arguments.check("replace", 3, {"old", "new", "count"});
  const Value& old_text = needed(arguments, 0, "replace", "old");
  const Value& new_text = needed(arguments, 1, "replace", "new");
  text_of(old_text, "replace");
  text_of(new_text, "replace");
  const int64_t count = optional_integer(arguments, 2, "count", -1);
  return like(
      interpreter, self,
      replace_text(read(interpreter, self), old_text.bytes(), part_of(self, new_text), count, interpreter.budget()));
}

Value join_method(Interpreter& interpreter, const Value& self, Given arguments) {
  arguments.check("join", 1);
  std::string out;
  const Values items = to_list(needed(arguments, 0, "join"), interpreter.budget());
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].is_text() && !self.is_markup()) {
      fail("sequence item ", i, ": expected str instance, ", type_name(items[i]), " found");
    }
    const Value item = soft_text(items[i], interpreter.budget());
    interpreter.budget().check(out.size() + self.bytes().size() + item.bytes().size());
    if (i > 0) out += self.bytes();
    out += part_of(self, item);
  }
  return like(interpreter, self, std::move(out));
}

template <bool from_end>
Value partition_method(Interpreter& interpreter, const Value& self, Given arguments) {
  arguments.check("partition", 1);
  const std::string& separator = text_of(needed(arguments, 0, "partition"), "partition");
  if (separator.empty()) fail("empty separator");
  const std::string& text = read(interpreter, self);
  const size_t found = from_end ? find_last_text(text, separator) : find_text(text, separator);
  const auto part = [&](std::string piece) { return like(interpreter, self, std::move(piece)); };
  if (found == kNone) {
    return interpreter.budget().tuple(from_end ? Values{part(""), part(""), self} : Values{self, part(""), part("")});
  }
  return interpreter.budget().tuple(
      {part(text.substr(0, found)), part(separator), part(text.substr(found + separator.size()))});
}

template <bool at_start>
Value remove_affix(Interpreter& interpreter, const Value& self, Given arguments) {
  arguments.check("removeprefix", 1);
  const std::string& affix = text_of(needed(arguments, 0, "removeprefix"), "removeprefix");
  const std::string& text = read(interpreter, self);
  const bool fits = at_start ? text.starts_with(affix) : text.ends_with(affix);
  if (!fits) return self;
  return like(interpreter, self, at_start ? text.substr(affix.size()) : text.substr(0, text.size() - affix.size()));
}

enum class Place { left, right, center };
template <Place place>
Value pad_method(Interpreter& interpreter, const Value& self, Given arguments) {
  arguments.check("ljust", 2);
  const int64_t width = whole_number(needed(arguments, 0, "ljust"), "a width");
  const Value fill = arguments.positional.size() > 1 ? arguments.positional[1] : plain_text(" ");
  text_of(fill, "ljust");
  if (count_code_points(part_of(self, fill)) != 1) fail("The fill character must be exactly one character long");
  const int64_t missing = std::max<int64_t>(width - self.text().length, 0);
  interpreter.budget().bytes(missing);
  const Value filler =
      arithmetic("*", interpreter.budget().text(part_of(self, fill)), Value(missing), interpreter.budget());
  const std::string padding = filler.bytes();
  if (place == Place::left) return like(interpreter, self, self.bytes() + padding);
  if (place == Place::right) return like(interpreter, self, padding + self.bytes());
  const int64_t left = missing / 2 + (missing & width & 1);
  const size_t before = missing == 0 ? 0 : padding.size() / static_cast<size_t>(missing) * static_cast<size_t>(left);
  return like(interpreter, self, padding.substr(0, before) + self.bytes() + padding.substr(before));
}
Value zero_fill(Interpreter& interpreter, const Value& self, Given arguments) {
  arguments.check("zfill", 1);
  const int64_t width = whole_number(needed(arguments, 0, "zfill"), "a width");
  const int64_t missing = std::max<int64_t>(width - self.text().length, 0);
  interpreter.budget().bytes(missing);
  const std::string& text = self.bytes();
  const size_t sign = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  return like(interpreter, self,
              text.substr(0, sign) + std::string(static_cast<size_t>(missing), '0') + text.substr(sign));
}

Value expand_tabs(Interpreter& interpreter, const Value& self, Given arguments) {
  arguments.check("expandtabs", 1, {"tabsize"});
  const int64_t size = optional_integer(arguments, 0, "tabsize", 8);
  std::string out;
  int64_t column = 0;
  text::for_each_code_point(read(interpreter, self), [&](char32_t code, std::string_view bytes) {
    if (code != '\t') {
      out += bytes;
      column = code == '\n' || code == '\r' ? 0 : column + 1;
    } else if (size > 0) {
      const int64_t spaces = size - column % size;
      interpreter.budget().bytes(spaces);
      interpreter.budget().check(out.size() + static_cast<size_t>(spaces));
      out.append(static_cast<size_t>(spaces), ' ');
      column += spaces;
    }
  });
  return like(interpreter, self, std::move(out));
}

Value format_method(Interpreter& interpreter, const Value& self, Given arguments) {
  return format_braces(self, arguments, interpreter);
}
Value format_map(Interpreter& interpreter, const Value& self, Given arguments) {
  arguments.check("format_map", 1);
  const Value& mapping = needed(arguments, 0, "format_map");
  if (!mapping.is_dict()) fail("format_map() needs a mapping");
  Arguments named;
  for (const auto& [key, value] : mapping.dict().members) {
    if (key.is_text()) named.named.emplace_back(key.bytes(), value);
  }
  return format_braces(self, named, interpreter);
}

Value encode(Interpreter&, const Value&, Given) { fail("encode() is not supported: templates have no bytes"); }

template <const char* name>
Value property(Interpreter& interpreter, const Value& self, Given arguments) {
  arguments.check("a method of str", 0);
  return Value(*has_property(read(interpreter, self), name));
}
constexpr char kAlpha[] = "alpha", kAlnum[] = "alnum", kDigit[] = "digit", kDecimal[] = "decimal",
               kNumeric[] = "numeric", kSpace[] = "space", kAscii[] = "ascii", kPrintable[] = "printable",
               kUpper[] = "upper", kLower[] = "lower", kTitle[] = "title", kIdentifier[] = "identifier";

}  // namespace

MethodBody text_method(std::string_view name) {
  static const std::map<std::string_view, MethodBody> methods{{"upper", mapped<upper_case_of>},
                                                              {"lower", mapped<lower_case_of>},
                                                              {"casefold", mapped<folded_case>},
                                                              {"capitalize", mapped<capitalized>},
                                                              {"title", mapped<title_case_of>},
                                                              {"swapcase", mapped<swapped_case>},
                                                              {"strip", strip_method<Side::both>},
                                                              {"lstrip", strip_method<Side::left>},
                                                              {"rstrip", strip_method<Side::right>},
                                                              {"split", split_method<split>},
                                                              {"rsplit", split_method<rsplit>},
                                                              {"splitlines", split_lines_method},
                                                              {"startswith", affix_method<true>},
                                                              {"endswith", affix_method<false>},
                                                              {"find", find_method<false, false>},
                                                              {"rfind", find_method<true, false>},
                                                              {"index", find_method<false, true>},
                                                              {"rindex", find_method<true, true>},
                                                              {"count", count_method},
                                                              {"replace", replace_method},
                                                              {"join", join_method},
                                                              {"partition", partition_method<false>},
                                                              {"rpartition", partition_method<true>},
                                                              {"removeprefix", remove_affix<true>},
                                                              {"removesuffix", remove_affix<false>},
                                                              {"ljust", pad_method<Place::left>},
                                                              {"rjust", pad_method<Place::right>},
                                                              {"center", pad_method<Place::center>},
                                                              {"zfill", zero_fill},
                                                              {"expandtabs", expand_tabs},
                                                              {"format", format_method},
                                                              {"format_map", format_map},
                                                              {"encode", encode},
                                                              {"isalpha", property<kAlpha>},
                                                              {"isalnum", property<kAlnum>},
                                                              {"isdigit", property<kDigit>},
                                                              {"isdecimal", property<kDecimal>},
                                                              {"isnumeric", property<kNumeric>},
                                                              {"isspace", property<kSpace>},
                                                              {"isascii", property<kAscii>},
                                                              {"isprintable", property<kPrintable>},
                                                              {"isupper", property<kUpper>},
                                                              {"islower", property<kLower>},
                                                              {"istitle", property<kTitle>},
                                                              {"isidentifier", property<kIdentifier>}};
  const auto found = methods.find(name);
  return found != methods.end() ? found->second : nullptr;
}

}  // namespace attend::jinja
