#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "chat/jinja/operations.h"
#include "chat/jinja/strings.h"
#include "text/unicode.h"

namespace attend::jinja {
namespace {

/// Builds the text of nested values within a budget.
class Printer {
 public:
  explicit Printer(Budget& budget) : budget_(budget) {}
  std::string out;

  void append(std::string_view text) {
    budget_.check(out.size() + text.size());
    budget_.step(1 + static_cast<int64_t>(text.size() / 16));
    out += text;
  }

  void represent(const Value& value) {
    if (++depth_ > kDeepestValue) fail("a value is nested too deeply to be printed");
    if (value.is_text()) {
      budget_.bytes(static_cast<int64_t>(value.bytes().size()));
      append(value.is_markup() ? "Markup(" + python_quoted(value.bytes()) + ")" : python_quoted(value.bytes()));
    } else if (value.is_list()) {
      append("[");
      items(value.items());
      append("]");
    } else if (value.is_tuple()) {
      append("(");
      items(value.items());
      append(value.items().size() == 1 ? ",)" : ")");
    } else if (value.is_dict()) {
      dict(value.dict());
    } else if (value.is_object()) {
      object(value);
    } else {
      append(scalar(value));
    }
    --depth_;
  }

  static std::string scalar(const Value& value) {
    if (value.is_none()) return "None";
    if (value.is_undefined()) return "Undefined";
    if (value.is_boolean()) return value.boolean() ? "True" : "False";
    return value.is_integer() ? std::to_string(value.integer()) : float_text(value.real());
  }

 private:
  void items(const Values& values) {
    bool is_first = true;
    for (const Value& value : values) {
      if (!std::exchange(is_first, false)) append(", ");
      represent(value);
    }
  }
  void dict(const Dict& dict) {
    append("{");
    bool is_first = true;
    for (const auto& [key, value] : dict.members) {
      if (!std::exchange(is_first, false)) append(", ");
      represent(key);
      append(": ");
      represent(value);
    }
    append("}");
  }
  void object(const Value& value) {
    if (const auto space = value.as<Namespace>()) {
      append("<Namespace ");
      dict(space->attributes);
      append(">");
    } else if (value.as<DictView>()) {
      append(type_name(value) + "([");
      items(to_list(value, budget_));
      append("])");
    } else {
      append(value.object().print());
    }
  }

  Budget& budget_;
  int depth_ = 0;
};

void append_escape(std::string& out, char32_t unit) {
  std::array<char, 12> escape{};
  std::snprintf(escape.data(), escape.size(), "\\u%04x", static_cast<unsigned>(unit));
  out += escape.data();
}

std::string json_text(std::string_view text, bool only_ascii) {
  std::string out = "\"";
  text::for_each_code_point(text, [&](char32_t code, std::string_view bytes) {
    static constexpr std::string_view kSpecial = "\"\\\n\r\t\f\b", kLetters = "\"\\nrtfb";
    const size_t special = code < 0x80 ? kSpecial.find(static_cast<char>(code)) : std::string_view::npos;
    if (special != std::string_view::npos) {
      (out += '\\') += kLetters[special];
    } else if (code < 0x20 || (only_ascii && code >= 0x7f && code < 0x10000)) {
      append_escape(out, code);
    } else if (only_ascii && code >= 0x10000) {
      append_escape(out, 0xd800 + ((code - 0x10000) >> 10));
      append_escape(out, 0xdc00 + ((code - 0x10000) & 0x3ff));
    } else {
      out += bytes;
    }
  });
  return out += '"';
}

class JsonPrinter {
 public:
  JsonPrinter(const JsonStyle& style, Budget& budget) : style_(style), budget_(budget) {}
  std::string out;

  void print(const Value& value) {
    if (value.is_text()) {
      budget_.bytes(static_cast<int64_t>(value.bytes().size()));
      append(json_text(value.bytes(), style_.only_ascii));
    } else if (value.is_sequence()) {
      enclosed('[', ']', value.items(), [this](const Value& item) { print(item); });
    } else if (value.is_dict()) {
      enclosed('{', '}', sorted(value.dict()), [this](const auto& member) {
        append(json_text(key(member.first), style_.only_ascii));
        append(style_.key_separator);
        print(member.second);
      });
    } else {
      append(scalar(value));
    }
  }

 private:
  void append(std::string_view text) {
    budget_.check(out.size() + text.size());
    budget_.step(1 + static_cast<int64_t>(text.size() / 16));
    out += text;
  }
  template <class Items, class Print>
  void enclosed(char opening, char closing, const Items& items, Print print_item) {
    append(std::string(1, opening));
    ++level_;
    bool is_first = true;
    for (const auto& item : items) {
      if (!std::exchange(is_first, false)) append(style_.item_separator);
      line();
      print_item(item);
    }
    --level_;
    if (!is_first) line();
    append(std::string(1, closing));
  }
  void line() {
    if (!style_.has_lines) return;
    append("\n");
    for (int i = 0; i < level_; ++i) append(style_.indent);
  }
  std::vector<std::pair<Value, Value>> sorted(const Dict& dict) {
    auto members = dict.members;
    budget_.step(static_cast<int64_t>(members.size()));
    if (style_.sort_keys) {
      std::ranges::stable_sort(members,
                               [this](const auto& a, const auto& b) { return less(a.first, b.first, budget_); });
    }
    return members;
  }
  static std::string scalar(const Value& value) {
    if (value.is_none()) return "null";
    if (value.is_boolean()) return value.boolean() ? "true" : "false";
    if (!value.is_number()) fail("Object of type ", type_name(value), " is not JSON serializable");
    if (value.is_integer() || std::isfinite(value.real())) return Printer::scalar(value);
    return std::isnan(value.real()) ? "NaN" : value.real() > 0 ? "Infinity" : "-Infinity";
  }
  static std::string key(const Value& value) {
    if (value.is_text()) return value.bytes();
    if (!value.is_number() && !value.is_none()) {
      fail("keys must be str, int, float, bool or None, not ", type_name(value));
    }
    return scalar(value);
  }

  const JsonStyle& style_;
  Budget& budget_;
  int level_ = 0;
};

}  // namespace

std::string to_text(const Value& value, Budget& budget) {
  if (value.is_text()) return value.bytes();
  if (value.is_undefined()) return "";
  return represent(value, budget);
}
Value soft_text(const Value& value, Budget& budget) {
  return value.is_text() ? value : budget.text(to_text(value, budget));
}
std::string represent(const Value& value, Budget& budget) {
  Printer printer(budget);
  printer.represent(value);
  return std::move(printer.out);
}
std::string to_json(const Value& value, const JsonStyle& style, Budget& budget) {
  JsonPrinter printer(style, budget);
  printer.print(value);
  return std::move(printer.out);
}

}  // namespace attend::jinja
