#include "grammar/code_points.h"

#include <algorithm>
#include <map>

namespace attend::grammar {
namespace {

constexpr CodeRange kSurrogates{0xD800, 0xDFFF};

}  // namespace

CodePoints::CodePoints(std::initializer_list<CodeRange> ranges) {
  for (const CodeRange& range : ranges) add(range);
}

CodePoints CodePoints::all() { return {{0, kLast}}; }

CodePoints CodePoints::of(std::string_view ascii) {
  CodePoints result;
  for (const char c : ascii) result.add({static_cast<unsigned char>(c), static_cast<unsigned char>(c)});
  return result;
}

void CodePoints::add(CodeRange range) {
  if (range.first > range.last) return;
  if (range.first <= kSurrogates.last && range.last >= kSurrogates.first) {
    if (range.first < kSurrogates.first) add({range.first, kSurrogates.first - 1});
    if (range.last > kSurrogates.last) add({kSurrogates.last + 1, range.last});
    return;
  }
  // Merge with all ranges that it overlaps or touches.
  const auto first = std::ranges::find_if(ranges_, [&](const CodeRange& one) { return one.last + 1 >= range.first; });
  auto last = first;
  for (; last != ranges_.end() && last->first <= range.last + 1; ++last) {
    range = {std::min(range.first, last->first), std::max(range.last, last->last)};
  }
  ranges_.insert(ranges_.erase(first, last), range);
}

void CodePoints::add(const CodePoints& other) {
  for (const CodeRange& range : other.ranges_) add(range);
}

CodePoints CodePoints::complement() const {
  CodePoints result;
  char32_t next = 0;
  for (const CodeRange& range : ranges_) {
    if (range.first > next) result.add({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLast) result.add({next, kLast});
  return result;
}

CodePoints CodePoints::common(const CodePoints& other) const {
  CodePoints result;
  for (auto a = ranges_.begin(), b = other.ranges_.begin(); a != ranges_.end() && b != other.ranges_.end();) {
    const CodeRange both{std::max(a->first, b->first), std::min(a->last, b->last)};
    if (both.first <= both.last) result.ranges_.push_back(both);
    a->last < b->last ? void(++a) : void(++b);
  }
  return result;
}

CodePoints CodePoints::without(const CodePoints& other) const { return common(other.complement()); }

bool CodePoints::contains(char32_t code) const {
  const auto after = std::ranges::upper_bound(ranges_, code, {}, &CodeRange::first);
  return after != ranges_.begin() && std::prev(after)->last >= code;
}

std::vector<CodePoints> partition(const std::vector<CodePoints>& sets) {
  // Between two neighbouring edges, all code points are in the same sets.
  std::map<char32_t, std::vector<std::pair<size_t, bool>>> edges;
  for (size_t i = 0; i < sets.size(); ++i) {
    for (const CodeRange& range : sets[i].ranges()) {
      edges[range.first].emplace_back(i, true);
      edges[range.last + 1].emplace_back(i, false);
    }
  }
  std::map<std::vector<bool>, CodePoints> parts;
  std::vector<bool> member(sets.size());
  for (auto edge = edges.begin(); edge != edges.end(); ++edge) {
    for (const auto& [set, begins] : edge->second) member[set] = begins;
    const auto next = std::next(edge);
    if (next == edges.end() || std::ranges::find(member, true) == member.end()) continue;
    parts[member].add({edge->first, next->first - 1});
  }
  std::vector<CodePoints> result;
  for (auto& [sets_of_part, part] : parts) result.push_back(std::move(part));
  return result;
}

}  // namespace attend::grammar
