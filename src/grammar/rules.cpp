#include "grammar/rules.h"

#include <algorithm>

#include "attend/base/error.h"

namespace attend::grammar {
namespace {

bool is_rule(Symbol symbol) { return symbol >= 0; }

/// The number of rules that the shortest completion opens inside each other; kDeepestRules if that many or none.
int32_t need_of(const Symbols& alternative, const std::vector<int32_t>& needs) {
  int32_t most = 0;
  for (size_t i = 0; i < alternative.size(); ++i) {
    if (!is_rule(alternative[i])) continue;
    const int32_t own = needs[static_cast<size_t>(alternative[i])];
    most = std::max(most, i + 1 == alternative.size() ? own : own + 1);  // the last rule replaces its parent
  }
  return std::min(most, kDeepestRules);
}

/// The need of each rule. A rule whose need falls puts the rules that use it on the list; a need falls at most
/// kDeepestRules times.
std::vector<int32_t> needs_of(const std::vector<std::vector<Symbols>>& rules) {
  std::vector<int32_t> needs(rules.size(), kDeepestRules);
  std::vector<std::vector<size_t>> users(rules.size());
  std::vector<size_t> list;
  for (size_t r = 0; r < rules.size(); ++r) {
    list.push_back(r);
    for (const Symbols& alternative : rules[r]) {
      for (const Symbol symbol : alternative) {
        if (is_rule(symbol)) users[static_cast<size_t>(symbol)].push_back(r);
      }
    }
  }
  std::vector<bool> is_listed(rules.size(), true);
  while (!list.empty()) {
    const size_t r = list.back();
    list.pop_back();
    is_listed[r] = false;
    int32_t least = kDeepestRules;
    for (const Symbols& alternative : rules[r]) least = std::min(least, need_of(alternative, needs));
    if (least >= needs[r]) continue;
    needs[r] = least;
    for (const size_t user : users[r]) {
      if (!is_listed[user]) list.push_back(user), is_listed[user] = true;
    }
  }
  return needs;
}

/// The ranges within [from, from + count), relative to `from`.
std::vector<CodeRange> part_of(const std::vector<CodeRange>& ranges, char32_t from, char32_t count) {
  std::vector<CodeRange> result;
  for (const CodeRange& range : ranges) {
    if (range.last < from || range.first >= from + count) continue;
    result.push_back({std::max(range.first, from) - from, std::min(range.last - from, count - 1)});
  }
  return result;
}

}  // namespace

Symbols operator+(Symbols left, const Symbols& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

Symbol RuleBuilder::rule() {
  require<FormatError>(++symbols_ <= kMostSymbols, "the schema is too large: more than ", kMostSymbols, " symbols");
  rules_.emplace_back();
  return static_cast<Symbol>(rules_.size() - 1);
}

void RuleBuilder::add(Symbol rule, Symbols alternative) {
  symbols_ += alternative.size() + 1;
  require<FormatError>(symbols_ <= kMostSymbols, "the schema is too large: more than ", kMostSymbols, " symbols");
  rules_[static_cast<size_t>(rule)].push_back(std::move(alternative));
}

Symbol RuleBuilder::any_of(std::vector<Symbols> alternatives) {
  const Symbol result = rule();
  for (Symbols& one : alternatives) add(result, std::move(one));
  return result;
}

Symbol RuleBuilder::bytes(const ByteSet& set, bool is_inside) {
  const auto [found, is_new] =
      set_symbols_.try_emplace({set.to_string(), is_inside}, ~static_cast<Symbol>(sets_.size()));
  if (is_new) sets_.push_back(set), is_inside_.push_back(is_inside);
  return found->second;
}

Symbol RuleBuilder::byte(char byte) { return byte_range(byte, byte); }

Symbol RuleBuilder::byte_range(char first, char last) {
  ByteSet set;
  for (int b = static_cast<unsigned char>(first); b <= static_cast<unsigned char>(last); ++b) {
    set.set(static_cast<size_t>(b));
  }
  return bytes(set);
}

Symbols RuleBuilder::text(std::string_view bytes) {
  Symbols result;
  for (const char b : bytes) result.push_back(byte(b));
  return result;
}

/// Numbers below 64^bytes as continuation bytes with six bits each, the highest first.
Symbol RuleBuilder::continuation(int bytes, const std::vector<CodeRange>& ranges) {
  const auto known = continuations_.find({bytes, ranges});
  if (known != continuations_.end()) return known->second;
  std::map<std::vector<CodeRange>, ByteSet> groups;
  const char32_t share = 1U << (6 * (bytes - 1));
  for (char32_t high = 0; high < 64; ++high) {
    const auto part = part_of(ranges, high * share, share);
    if (!part.empty()) groups[part].set(0x80 | high);
  }
  Symbol result = 0;
  if (bytes == 1) {
    result = this->bytes(groups.begin()->second);
  } else {
    std::vector<Symbols> alternatives;
    for (const auto& [part, lead] : groups) alternatives.push_back({this->bytes(lead), continuation(bytes - 1, part)});
    result = any_of(std::move(alternatives));
  }
  return continuations_.emplace(std::pair(bytes, ranges), result).first->second;
}

Symbol RuleBuilder::code_point(const CodePoints& set) {
  const auto known = code_points_.find(set);
  if (known != code_points_.end()) return known->second;
  ByteSet ascii;
  for (size_t code = 0; code < 0x80; ++code) ascii.set(code, set.contains(static_cast<char32_t>(code)));
  std::vector<Symbols> alternatives;
  if (ascii.any()) alternatives.push_back({bytes(ascii)});
  struct Length {
    int bytes;
    char32_t first, count;
    unsigned lead;
  };
  for (const Length& one : {Length{1, 0x80, 0x780, 0xC0}, {2, 0x800, 0xF800, 0xE0}, {3, 0x10000, 0x100000, 0xF0}}) {
    std::map<std::vector<CodeRange>, ByteSet> groups;
    const char32_t share = 1U << (6 * one.bytes);
    for (char32_t high = 0; high * share < one.first + one.count; ++high) {
      std::vector<CodeRange> part;
      for (const CodeRange& range : part_of(set.ranges(), high * share, share)) {  // no overlong forms
        const char32_t least = one.first > high * share ? one.first - high * share : 0;
        if (range.last >= least) part.push_back({std::max(range.first, least), range.last});
      }
      if (!part.empty()) groups[part].set(one.lead | high);
    }
    for (const auto& [part, lead] : groups) alternatives.push_back({bytes(lead), continuation(one.bytes, part)});
  }
  const bool is_byte = alternatives.size() == 1 && alternatives[0].size() == 1;
  const Symbol result = is_byte ? alternatives[0][0] : any_of(std::move(alternatives));
  return code_points_.emplace(set, result).first->second;
}

Symbol RuleBuilder::repeated(Symbol item, int64_t least, std::optional<int64_t> most) {
  // A chain: each rule is an item and the rest. The rest is the last symbol, so that no rule stays open.
  Symbol rest = rule();
  add(rest, {});
  if (!most) add(rest, {item, rest});
  for (int64_t i = least; i < most.value_or(least); ++i) rest = any_of({{}, {item, rest}});
  for (int64_t i = 0; i < least; ++i) rest = any_of({{item, rest}});
  return rest;
}

Grammar RuleBuilder::finish(Symbol start) const {
  const std::vector<int32_t> needs = needs_of(rules_);
  const int32_t need = needs[static_cast<size_t>(start)];
  require<FormatError>(need < kDeepestRules, "the schema has no value of at most ", kDeepestRules, " levels");
  auto result = std::make_shared<Rules>();
  result->start = start;
  result->is_inside = is_inside_;
  for (const std::vector<Symbols>& rule : rules_) {
    std::vector<Symbols> distinct;
    auto& own = result->alternatives.emplace_back();
    for (const Symbols& alternative : rule) {
      const int32_t own_need = need_of(alternative, needs);
      const bool is_double = rule.size() < 64 && std::ranges::find(distinct, alternative) != distinct.end();
      if (own_need >= kDeepestRules || is_double) continue;
      own.push_back({static_cast<int32_t>(result->symbols.size()), own_need});
      result->symbols.insert(result->symbols.end(), alternative.begin(), alternative.end());
      result->symbols.push_back(kEnd);
      if (rule.size() < 64) distinct.push_back(alternative);
    }
  }
  std::map<std::vector<bool>, uint8_t> classes;
  for (size_t b = 0; b < 256; ++b) {
    std::vector<bool> member;
    for (const ByteSet& set : sets_) member.push_back(set.test(b));
    result->class_of[b] = classes.try_emplace(member, static_cast<uint8_t>(classes.size())).first->second;
  }
  result->classes = classes.size();
  for (const ByteSet& set : sets_) {
    ByteSet& own = result->sets.emplace_back();
    for (size_t b = 0; b < 256; ++b) own.set(result->class_of[b], set.test(b));
  }
  return Grammar(std::move(result));
}

}  // namespace attend::grammar
