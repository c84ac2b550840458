#include <algorithm>
#include <array>
#include <cstdio>

#include "chat/jinja/filters.h"
#include "chat/jinja/interpreter.h"
#include "chat/jinja/operations.h"
#include "chat/jinja/strings.h"
#include "text/unicode.h"

namespace attend::jinja {
namespace {

using Given = const Arguments&;

std::string plain(Interpreter& interpreter, const Value* value, const char* otherwise) {
  return value == nullptr ? otherwise : to_text(*value, interpreter.budget());
}
bool flag(const Value* value, bool otherwise = false) { return value == nullptr ? otherwise : is_true(*value); }
/// A text of the same kind, plain or markup.
Value like(Interpreter& interpreter, const Value& text, std::string bytes) {
  return interpreter.budget().text(std::move(bytes), text.is_markup());
}

template <std::string (*map)(std::string_view)>
Value mapped(Interpreter& interpreter, const Value& value, Given arguments) {
  arguments.check("the filter", 0);
  const Value text = soft_text(value, interpreter.budget());
  return like(interpreter, text, map(text.bytes()));
}

Value string(Interpreter& interpreter, const Value& value, Given arguments) {
  arguments.check("string", 0);
  return soft_text(value, interpreter.budget());
}
Value safe(Interpreter& interpreter, const Value& value, Given arguments) {
  arguments.check("safe", 0);
  return value.is_markup() ? value : interpreter.budget().text(to_text(value, interpreter.budget()), true);
}
Value escape(Interpreter& interpreter, const Value& value, Given arguments) {
  arguments.check("escape", 0);
  if (value.is_markup()) return value;
  return interpreter.budget().text(html_escaped(to_text(value, interpreter.budget())), true);
}
Value force_escape(Interpreter& interpreter, const Value& value, Given arguments) {
  arguments.check("forceescape", 0);
  return interpreter.budget().text(html_escaped(to_text(value, interpreter.budget())), true);
}

Value trim(Interpreter& interpreter, const Value& value, Given arguments) {
  arguments.check("trim", 1, {"chars"});
  const Value text = soft_text(value, interpreter.budget());
  const Value* chars = arguments.find(0, "chars");
  std::optional<std::string_view> set;
  if (chars != nullptr && !chars->is_none()) {
    if (!chars->is_text()) fail("strip arg must be None or str");
    set = chars->bytes();
  }
  return like(interpreter, text, std::string(strip(text.bytes(), set, Side::both)));
}

Value replace(Interpreter& interpreter, const Value& value, Given arguments) {
  arguments.check("replace", 3, {"old", "new", "count"});
  const Value *old_text = arguments.find(0, "old"), *new_text = arguments.find(1, "new");
  const Value* count = arguments.find(2, "count");
  if (old_text == nullptr || new_text == nullptr) fail("replace needs two arguments");
  Budget& budget = interpreter.budget();
  const int64_t most = count == nullptr || count->is_none() ? -1 : whole_number(*count, "count");
  return budget.text(
      replace_text(to_text(value, budget), to_text(*old_text, budget), to_text(*new_text, budget), most, budget));
}

/// Words begin after spaces and after one of - ( { [ <.
std::string titled(std::string_view text) {
  std::string out;
  size_t word = 0, at = 0;
  const auto finish = [&](size_t end) {
    const std::string_view part = text.substr(word, end - word);
    const size_t first = byte_offset(part, 1);
    out += upper_case_of(part.substr(0, first)) + lower_case_of(part.substr(first));
  };
  while (at < text.size()) {
    const size_t begin = at;
    const char32_t code = text::next_code_point(text, at);
    const bool is_break =
        is_python_space(code) || code == '-' || code == '(' || code == '{' || code == '[' || code == '<';
    if (!is_break) continue;
    finish(begin);
    out += text.substr(begin, at - begin);
    word = at;
  }
  finish(text.size());
  return out;
}

Value format(Interpreter& interpreter, const Value& value, Given arguments) {
  Budget& budget = interpreter.budget();
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    fail("can't handle positional and keyword arguments at the same time");
  }
  Dict named;
  for (const auto& [name, argument] : arguments.named) named.set(plain_text(name), argument, budget);
  const bool is_named = !arguments.named.empty();
  return format_percent(soft_text(value, budget),
                        is_named ? budget.dict(std::move(named)) : budget.tuple(arguments.positional), budget);
}

Value indent(Interpreter& interpreter, const Value& value, Given arguments) {
  arguments.check("indent", 3, {"width", "first", "blank"});
  Budget& budget = interpreter.budget();
  if (value.is_undefined()) fail(value.undefined().message);
  if (!value.is_text()) fail("indent: expected str, got ", type_name(value));
  const Value& text = value;
  const Value* width = arguments.find(0, "width");
  const Value space =
      arithmetic("*", plain_text(" "), width == nullptr || width->is_text() ? Value(int64_t{4}) : *width, budget);
  const std::string indentation = width != nullptr && width->is_text() ? width->bytes() : space.bytes();
  const bool first = flag(arguments.find(1, "first")), blank = flag(arguments.find(2, "blank"));
  std::string out;
  bool is_first = true;
  // A line break at the very end starts a line of its own.
  const std::string lines = text.bytes() + "\n";
  for (const std::string_view line : split_lines(lines, false)) {
    if (!is_first) out += '\n';
    const bool is_indented = is_first ? first : blank || !line.empty();
    budget.check(out.size() + indentation.size() + line.size());
    if (is_indented) out += indentation;
    out += line;
    is_first = false;
  }
  return like(interpreter, text, std::move(out));
}

Value center(Interpreter& interpreter, const Value& value, Given arguments) {
  arguments.check("center", 1, {"width"});
  const Value text = soft_text(value, interpreter.budget());
  const Value* width = arguments.find(0, "width");
  const Value wide = width == nullptr ? Value(int64_t{80}) : *width;
  return interpreter.call(interpreter.item(text, plain_text("center")), {.positional = {wide}, .named = {}});
}

Value truncate(Interpreter& interpreter, const Value& value, Given arguments) {
  arguments.check("truncate", 4, {"length", "killwords", "end", "leeway"});
  Budget& budget = interpreter.budget();
  const auto number = [&](size_t place, const char* name, int64_t otherwise) {
    const Value* given = arguments.find(place, name);
    return given == nullptr || given->is_none() ? otherwise : whole_number(*given, name);
  };
  const Value text = soft_text(value, budget);
  const int64_t length = number(0, "length", 255), leeway = number(3, "leeway", 5);
  const std::string end = plain(interpreter, arguments.find(2, "end"), "...");
  const int64_t end_length = count_code_points(end);
  if (length < end_length) fail("truncate: expected length >= ", end_length, ", got ", length);
  if (leeway < 0) fail("truncate: expected leeway >= 0, got ", leeway);
  if (text.text().length - leeway <= length) return text;
  std::string kept = text.bytes().substr(0, byte_offset(text.bytes(), length - end_length));
  if (!flag(arguments.find(1, "killwords"))) {
    const size_t space = kept.rfind(' ');
    if (space != std::string::npos) kept.resize(space);
  }
  return like(interpreter, text, kept + end);
}

Value word_count(Interpreter& interpreter, const Value& value, Given arguments) {
  arguments.check("wordcount", 0);
  const Value text = soft_text(value, interpreter.budget());
  int64_t count = 0;
  bool in_word = false;
  text::for_each_code_point(text.bytes(), [&](char32_t code, std::string_view bytes) {
    const bool is_word = code == '_' || *has_property(bytes, "alnum");
    if (is_word && !in_word) ++count;
    in_word = is_word;
  });
  return Value(count);
}

std::string url_quoted(std::string_view text, bool keeps_slash) {
  std::string out;
  for (const char c : text) {
    const bool is_plain =
        std::isalnum(static_cast<unsigned char>(c)) || std::string_view("_.-~").find(c) != std::string_view::npos;
    if (is_plain || (keeps_slash && c == '/')) {
      out += c;
    } else {
      std::array<char, 4> escape{};
      std::snprintf(escape.data(), escape.size(), "%%%02X", static_cast<unsigned>(static_cast<unsigned char>(c)));
      out += escape.data();
    }
  }
  return out;
}
Value url_encode(Interpreter& interpreter, const Value& value, Given arguments) {
  arguments.check("urlencode", 0);
  Budget& budget = interpreter.budget();
  if (value.is_text() || !is_iterable(value)) return budget.text(url_quoted(to_text(value, budget), true));
  std::string out;
  const auto add = [&](const Value& key, const Value& item) {
    if (!out.empty()) out += '&';
    const auto part = [&](const Value& text) {
      return replace_text(url_quoted(to_text(text, budget), false), "%20", "+", -1, budget);
    };
    out += part(key) + "=" + part(item);
    budget.check(out.size());
  };
  if (value.is_dict()) {
    for (const auto& [key, item] : value.dict().members) add(key, item);
  } else {
    for (const Value& pair : to_list(value, budget)) {
      const Values parts = to_list(pair, budget);
      if (parts.size() != 2) fail("urlencode needs pairs");
      add(parts[0], parts[1]);
    }
  }
  return budget.text(std::move(out));
}

/// transformers' own tojson: json.dumps(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False).
Value to_json_filter(Interpreter& interpreter, const Value& value, Given arguments) {
  arguments.check("tojson", 4, {"ensure_ascii", "indent", "separators", "sort_keys"});
  Budget& budget = interpreter.budget();
  JsonStyle style{.only_ascii = flag(arguments.find(0, "ensure_ascii")),
                  .sort_keys = flag(arguments.find(3, "sort_keys"))};
  if (const Value* indent = arguments.find(1, "indent"); indent != nullptr && !indent->is_none()) {
    style.has_lines = true;
    style.item_separator = ",";
    const Value width = indent->is_text() ? *indent : arithmetic("*", plain_text(" "), *indent, budget);
    style.indent = width.bytes();
  }
  if (const Value* separators = arguments.find(2, "separators"); separators != nullptr && !separators->is_none()) {
    const Values pair = to_list(*separators, budget);
    if (pair.size() != 2 || !pair[0].is_text() || !pair[1].is_text()) fail("separators must be two strings");
    style.item_separator = pair[0].bytes();
    style.key_separator = pair[1].bytes();
  }
  return budget.text(to_json(value, style, budget));
}

}  // namespace

void add_text_filters(FilterTable& table) {
  table.insert({{"string", string},
                {"safe", safe},
                {"e", escape},
                {"escape", escape},
                {"forceescape", force_escape},
                {"lower", mapped<lower_case_of>},
                {"upper", mapped<upper_case_of>},
                {"capitalize", mapped<capitalized>},
                {"title", mapped<titled>},
                {"trim", trim},
                {"replace", replace},
                {"format", format},
                {"indent", indent},
                {"center", center},
                {"truncate", truncate},
                {"wordcount", word_count},
                {"urlencode", url_encode},
                {"tojson", to_json_filter}});
}

}  // namespace attend::jinja
