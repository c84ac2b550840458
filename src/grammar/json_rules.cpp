#include "grammar/json_rules.h"

#include <algorithm>

#include "attend/base/error.h"
#include "attend/io/json.h"

namespace attend::grammar {
namespace {

constexpr int64_t kMostIndentation = 20;
constexpr int64_t kMostDigits = 18, kMostExponentDigits = 2;

const CodePoints& controls() {
  static const CodePoints set{{0, 0x1F}};
  return set;
}

/// The shortest escape of a character that must be escaped.
std::string escape_of(char32_t code) {
  const std::string quoted = Json(std::string(1, static_cast<char>(code))).dump();
  return quoted.substr(1, quoted.size() - 2);
}

}  // namespace

Symbol JsonRules::space() {
  if (!space_) {
    const Symbol indentation = builder.repeated(builder.byte(' '), 0, kMostIndentation);
    space_ = builder.any_of({{}, {builder.byte(' ')}, {builder.byte('\n'), indentation}});
  }
  return *space_;
}

Symbol JsonRules::colon() {
  if (!colon_) colon_ = builder.any_of({builder.text(":"), builder.text(": ")});
  return *colon_;
}

Symbol JsonRules::value() {
  if (value_) return *value_;
  value_ = builder.rule();
  for (const Symbol one : {any_object(), any_array(), string(), number()}) builder.add(*value_, {one});
  for (const char* word : {"true", "false", "null"}) builder.add(*value_, builder.text(word));
  return *value_;
}

Symbol JsonRules::any_object() {
  if (any_object_) return *any_object_;
  any_object_ = builder.rule();
  const Symbol member = value();
  builder.add(*any_object_, {object({}, member)});
  return *any_object_;
}

Symbol JsonRules::any_array() {
  if (any_array_) return *any_array_;
  any_array_ = builder.rule();
  const Symbol item = value();
  builder.add(*any_array_, {array({.rest = item})});
  return *any_array_;
}

Symbol JsonRules::number() {
  if (number_) return *number_;
  const Symbol digit = builder.byte_range('0', '9');
  const Symbol sign = builder.any_of({{}, builder.text("-")});
  const Symbol whole =
      builder.any_of({builder.text("0"), {builder.byte_range('1', '9'), builder.repeated(digit, 0, kMostDigits - 1)}});
  const Symbol decimals = builder.any_of({{}, {builder.byte('.'), builder.repeated(digit, 1, kMostDigits)}});
  const Symbol exponent_sign = builder.any_of({{}, builder.text("-"), builder.text("+")});
  const Symbol exponent_digits = builder.repeated(digit, 1, kMostExponentDigits);
  const Symbol exponent = builder.any_of(
      {{}, {builder.byte('e'), exponent_sign, exponent_digits}, {builder.byte('E'), exponent_sign, exponent_digits}});
  number_ = builder.any_of({{sign, whole, decimals, exponent}});
  return *number_;
}

/// One character of a string, in any spelling. Escaped surrogates come in pairs.
Symbol JsonRules::character() {
  if (character_) return *character_;
  CodePoints raw = controls();
  raw.add(CodePoints::of("\"\\"));
  const CodePoints hex_digits{{'0', '9'}, {'A', 'F'}, {'a', 'f'}};
  const auto one_of = [&](const CodePoints& set) { return builder.code_point(set); };
  const Symbol hex = one_of(hex_digits), d = one_of(CodePoints::of("dD"));
  const Symbol below_surrogates = one_of({{'0', '7'}}), first = one_of(hex_digits.without(CodePoints::of("dD")));
  const Symbols escape = builder.text("\\u");
  character_ = builder.any_of({{one_of(raw.complement())},
                               {builder.byte('\\'), one_of(CodePoints::of("\"\\/bfnrt"))},
                               escape + Symbols{first, hex, hex, hex},
                               escape + Symbols{d, below_surrogates, hex, hex},
                               escape + Symbols{d, one_of(CodePoints::of("89abAB")), hex, hex} + escape +
                                   Symbols{d, one_of(CodePoints::of("cdefCDEF")), hex, hex}});
  return *character_;
}

Symbol JsonRules::string(int64_t least, std::optional<int64_t> most) {
  if (least == 0 && !most && string_) return *string_;
  const Symbol result =
      builder.any_of({{builder.byte('"'), builder.repeated(character(), least, most), builder.byte('"')}});
  if (least == 0 && !most) string_ = result;
  return result;
}

/// One code point of a set, escaped only if it must be.
Symbol JsonRules::escaped(const CodePoints& set) {
  CodePoints special = controls();
  special.add(CodePoints::of("\"\\"));
  const CodePoints raw = set.without(special);
  std::vector<Symbols> alternatives;
  if (!raw.empty()) alternatives.push_back({builder.code_point(raw)});
  const CodePoints escapes = set.common(special);
  for (const CodeRange& range : escapes.ranges()) {
    for (char32_t code = range.first; code <= range.last; ++code) {
      alternatives.push_back(builder.text(escape_of(code)));
    }
  }
  if (alternatives.size() == 1 && alternatives[0].size() == 1) return alternatives[0][0];
  return builder.any_of(std::move(alternatives));
}

Symbol JsonRules::string(const Dfa& dfa) {
  std::vector<Symbol> states;
  std::map<CodePoints, Symbol> characters;
  for (size_t s = 0; s < dfa.states.size(); ++s) states.push_back(builder.rule());
  for (size_t s = 0; s < dfa.states.size(); ++s) {
    if (dfa.states[s].accepts) builder.add(states[s], {});
    for (const Dfa::Edge& edge : dfa.states[s].edges) {
      const auto known = characters.find(edge.on);
      const Symbol on = known != characters.end() ? known->second : escaped(edge.on);
      characters.emplace(edge.on, on);
      builder.add(states[s], {on, states[static_cast<size_t>(edge.to)]});
    }
  }
  return builder.any_of({{builder.byte('"'), states[0], builder.byte('"')}});
}

/// The numbers from `least` to `most`, both with the same number of digits.
Symbol JsonRules::digits(std::string_view least, std::string_view most) {
  const std::pair key{std::string(least), std::string(most)};
  if (const auto known = digits_.find(key); known != digits_.end()) return known->second;
  const Symbol result = builder.rule();
  digits_.emplace(key, result);
  if (least.empty()) {
    builder.add(result, {});
    return result;
  }
  const std::string zeros(least.size() - 1, '0'), nines(least.size() - 1, '9');
  const std::string_view low = least.substr(1), high = most.substr(1);
  const auto add = [&](char first, char last, std::string_view from, std::string_view to) {
    if (first <= last) builder.add(result, {builder.byte_range(first, last), digits(from, to)});
  };
  if (least[0] == most[0]) {
    add(least[0], least[0], low, high);
  } else {
    const char from = low == zeros ? least[0] : static_cast<char>(least[0] + 1);
    const char to = high == nines ? most[0] : static_cast<char>(most[0] - 1);
    if (from != least[0]) add(least[0], least[0], low, nines);
    add(from, to, zeros, nines);
    if (to != most[0]) add(most[0], most[0], zeros, high);
  }
  return result;
}

/// Adds the numbers from `least` to `most` after a sign.
void JsonRules::add_magnitudes(Symbol rule, const Symbols& sign, uint64_t least, uint64_t most) {
  for (uint64_t low = least; low <= most;) {
    const size_t length = std::to_string(low).size();
    const uint64_t last = std::min<uint64_t>(most, std::stoull(std::string(length, '9')));
    builder.add(rule, sign + Symbols{digits(std::to_string(low), std::to_string(last))});
    low = last + 1;
  }
}

Symbol JsonRules::integer(int64_t least, int64_t most) {
  const Symbol result = builder.rule();
  const auto size = [](int64_t value) { return static_cast<uint64_t>(value < 0 ? -value : value); };
  if (least < 0) add_magnitudes(result, builder.text("-"), most < 0 ? size(most) : 1, size(least));
  if (most >= 0) add_magnitudes(result, {}, least < 0 ? 0 : size(least), size(most));
  return result;
}

/// What follows a member: `}`, or a comma and another member.
Symbol JsonRules::member_tail(Symbol key, Symbol value) {
  const Symbol result = builder.rule();
  builder.add(result, {space(), builder.byte('}')});
  builder.add(result, {builder.byte(','), space(), key, colon(), value, result});
  return result;
}

Symbol JsonRules::object(std::span<const PropertyRule> properties, std::optional<Symbol> additional) {
  // `first` continues an object without members, `next` one with members. Rules refer to those of later properties.
  Symbol first = builder.any_of({builder.text("}")});
  Symbol next = builder.any_of({{space(), builder.byte('}')}});
  if (additional) {
    std::vector<std::string> names;
    for (const PropertyRule& one : properties) names.push_back(one.name);
    const Symbol key = names.empty() ? string() : string(texts_except(names));
    next = member_tail(key, *additional);
    builder.add(first, {key, colon(), *additional, next});
  }
  for (auto one = properties.rbegin(); one != properties.rend(); ++one) {
    const Symbols member = builder.text(Json(one->name).dump()) + Symbols{colon(), one->value, next};
    const Symbol own_first = builder.any_of({member});
    const Symbol own_next = builder.any_of({Symbols{builder.byte(','), space()} + member});
    if (!one->is_required) {
      builder.add(own_first, {first});
      builder.add(own_next, {next});
    }
    first = own_first;
    next = own_next;
  }
  return builder.any_of({{builder.byte('{'), space(), first}});
}

Symbol JsonRules::array(const ItemRules& items) {
  const auto fixed = std::ssize(items.first);
  const int64_t most = items.rest ? items.most.value_or(INT64_MAX) : std::min(items.most.value_or(fixed), fixed);
  require<FormatError>(items.least <= most, "no array has at least ", items.least, " and at most ", most, " items");
  const Symbol end = builder.any_of({{space(), builder.byte(']')}});
  const auto item = [&](int64_t i) { return i < fixed ? items.first[static_cast<size_t>(i)] : *items.rest; };
  // next[i] continues an array of i items.
  const int64_t count = most < INT64_MAX ? most : std::max({fixed, items.least, int64_t{1}});
  Symbol next = end;
  if (most == INT64_MAX) {
    next = builder.any_of({{end}});
    builder.add(next, {builder.byte(','), space(), *items.rest, next});
  }
  for (int64_t i = count - 1; i >= 1; --i) {
    const Symbol own = builder.any_of({{builder.byte(','), space(), item(i), next}});
    if (i >= items.least) builder.add(own, {end});
    next = own;
  }
  const Symbol first = builder.rule();
  if (items.least == 0) builder.add(first, builder.text("]"));
  if (most > 0) builder.add(first, {item(0), next});
  return builder.any_of({{builder.byte('['), space(), first}});
}

}  // namespace attend::grammar
