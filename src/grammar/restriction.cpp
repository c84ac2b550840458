#include "grammar/restriction.h"

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <unordered_set>

#include "attend/base/error.h"
#include "io/printable.h"

namespace attend::grammar {
namespace {

/// Beyond this number of steps, the exact grammar is given up. A step takes about 1 µs.
constexpr int64_t kMostWork = 1'000'000;
constexpr size_t kLongestContext = 40;  // bytes of a text in a message

uint64_t key_of(int32_t first, int32_t second) {
  return uint64_t{static_cast<uint32_t>(first)} << 32 | static_cast<uint32_t>(second);
}

/// Thrown within this file only.
struct TooLarge {};

/// The product of a context-free grammar and the automaton of a regular language (Bar-Hillel, Perles and Shamir, 1961).
/// A goal is a rule that begins at one place and ends at another. Only places that are reached from the start of a text
/// are considered, so that most rules begin between two tokens and are as large as before.
class Product {
 public:
  Product(const Rules& rules, const TokenStrings& strings) : rules_(rules), strings_(strings) {
    for (const ByteSet& classes : rules.sets) {
      ByteSet& own = sets_.emplace_back();
      for (size_t byte = 0; byte < 256; ++byte) own.set(byte, classes.test(rules.class_of[byte]));
    }
  }

  /// nullopt: no text.
  std::optional<Grammar> build() {
    const int32_t start = opening(rules_.start, 0);
    while (!items_to_read_.empty()) {
      const int32_t item = items_to_read_.back();
      items_to_read_.pop_back();
      read(item);
    }
    if (!ends_.contains(key_of(start, 0))) return std::nullopt;
    for (Opening& one : openings_) {
      std::ranges::sort(one.items, [&](int32_t a, int32_t b) { return item(a).at > item(b).at; });
    }
    const Symbol first = goal(start, 0);
    try {
      while (!goals_to_write_.empty()) {
        const Goal next = goals_to_write_.back();
        goals_to_write_.pop_back();
        write(next);
      }
    } catch (const FormatError&) {  // more than kMostSymbols
      throw TooLarge{};
    }
    return builder_.finish(first);
  }

 private:
  /// A position in an alternative of an opened rule, and the place there.
  struct Item {
    int32_t at = 0, opening = 0, place = 0;
    bool leads = false;           // to the end of the goal that is being written
    std::vector<int32_t> next{};  // items after the symbol
  };
  /// A rule that begins at a place.
  struct Opening {
    int32_t rule = 0, place = 0;
    std::vector<int32_t> items{}, ends{};  // of `ends`: places
    std::vector<int32_t> waiting{};        // items whose next symbol this is
  };
  struct Goal {
    int32_t opening = 0, end = 0;
    Symbol rule = 0;
  };

  Item& item(int32_t index) { return items_[static_cast<size_t>(index)]; }
  Opening& opened(int32_t index) { return openings_[static_cast<size_t>(index)]; }
  Symbol symbol_at(const Item& item) const { return rules_.symbols[static_cast<size_t>(item.at)]; }

  void count_work(int64_t steps = 1) {
    if ((work_ += steps) > kMostWork) throw TooLarge{};
  }

  int32_t opening(Symbol rule, int32_t place) {
    const auto [found, is_new] =
        opening_index_.try_emplace(key_of(rule, place), static_cast<int32_t>(openings_.size()));
    const int32_t result = found->second;
    if (!is_new) return result;
    openings_.push_back({.rule = rule, .place = place});
    for (const Rules::Alternative& one : rules_.alternatives[static_cast<size_t>(rule)])
      add_item(result, one.at, place);
    return result;
  }

  int32_t add_item(int32_t opening, int32_t at, int32_t place) {
    count_work();
    const auto [found, is_new] = item_index_.try_emplace(key_of(opening, at), 0);
    // Most positions are reached at one place. The items of other places are in a list behind the first.
    if (is_new) return found->second = new_item(opening, at, place);
    if (item(found->second).place == place) return found->second;
    const auto [other, is_other_new] =
        other_items_.try_emplace({key_of(opening, at), place}, static_cast<int32_t>(items_.size()));
    return is_other_new ? new_item(opening, at, place) : other->second;
  }

  int32_t new_item(int32_t opening, int32_t at, int32_t place) {
    const auto result = static_cast<int32_t>(items_.size());
    items_.push_back({.at = at, .opening = opening, .place = place});
    opened(opening).items.push_back(result);
    items_to_read_.push_back(result);
    return result;
  }

  void link(int32_t from, int32_t place) {
    const int32_t to = add_item(item(from).opening, item(from).at + 1, place);
    item(from).next.push_back(to);
  }

  void read(int32_t index) {
    const Item own = item(index);
    const Symbol symbol = symbol_at(own);
    if (symbol == kEnd) {
      end(own.opening, own.place);
    } else if (symbol < 0) {
      const ByteSet& set = sets_[static_cast<size_t>(~symbol)];
      const auto& edges = strings_.places[static_cast<size_t>(own.place)];
      count_work(std::ssize(edges));
      for (const TokenStrings::Edge& edge : edges) {
        if ((edge.on & set).any()) link(index, edge.to);
      }
    } else {
      const int32_t child = opening(symbol, own.place);
      opened(child).waiting.push_back(index);
      for (const int32_t place : opened(child).ends) link(index, place);
    }
  }

  void end(int32_t opening, int32_t place) {
    if (!ends_.insert(key_of(opening, place)).second) return;
    opened(opening).ends.push_back(place);
    for (const int32_t one : opened(opening).waiting) link(one, place);
  }

  /// The symbol of an opening that ends at a place.
  Symbol goal(int32_t opening, int32_t end) {
    const auto [found, is_new] = goal_index_.try_emplace(key_of(opening, end), 0);
    if (!is_new) return found->second;
    found->second = builder_.rule();
    goals_to_write_.push_back({opening, end, found->second});
    return found->second;
  }

  /// Adds the alternatives of a goal. Where several places follow a position, a rule of its own begins there.
  void write(const Goal& goal) {
    const Opening& own = opened(goal.opening);
    count_work(std::ssize(own.items));
    for (const int32_t index : own.items) {  // later positions first
      Item& one = item(index);
      one.leads = symbol_at(one) == kEnd
                      ? one.place == goal.end
                      : std::ranges::any_of(one.next, [&](int32_t next) { return item(next).leads; });
    }
    std::vector<std::pair<Symbol, int32_t>> list;
    std::unordered_map<int32_t, Symbol> forks;
    const auto fork = [&](int32_t index) {
      const auto [found, is_new] = forks.try_emplace(index, 0);
      if (is_new) list.emplace_back(found->second = builder_.rule(), index);
      return found->second;
    };
    for (const Rules::Alternative& one : rules_.alternatives[static_cast<size_t>(own.rule)]) {
      const int32_t first = add_item(goal.opening, one.at, own.place);
      if (item(first).leads) list.emplace_back(goal.rule, first);
    }
    while (!list.empty()) {
      const auto [rule, index] = list.back();
      list.pop_back();
      if (symbol_at(item(index)) == kEnd) builder_.add(rule, {});
      for (const int32_t next : item(index).next) {
        if (item(next).leads) builder_.add(rule, sequence(index, next, fork));
      }
    }
  }

  /// The symbols from an item through the next one to the end, or to a fork.
  template <class Fork>
  Symbols sequence(int32_t index, int32_t next, const Fork& fork) {
    Symbols result;
    while (true) {
      count_work();
      result.push_back(symbol_between(item(index), item(next).place));
      index = next;
      if (symbol_at(item(index)) == kEnd) return result;
      const auto leads = [&](int32_t one) { return item(one).leads; };
      if (std::ranges::count_if(item(index).next, leads) > 1) {
        result.push_back(fork(index));
        return result;
      }
      next = *std::ranges::find_if(item(index).next, leads);
    }
  }

  Symbol symbol_between(const Item& item, int32_t place) {
    const Symbol symbol = symbol_at(item);
    if (symbol >= 0) return goal(opening(symbol, item.place), place);
    ByteSet set;
    for (const TokenStrings::Edge& edge : strings_.places[static_cast<size_t>(item.place)]) {
      if (edge.to == place) set |= edge.on & sets_[static_cast<size_t>(~symbol)];
    }
    return builder_.bytes(set, item.place != 0);
  }

  struct OtherHash {
    size_t operator()(const std::pair<uint64_t, int32_t>& key) const {
      return key.first * 0x9E3779B97F4A7C15 ^ static_cast<size_t>(key.second) * 0xD6E8FEB86659FD93;
    }
  };

  const Rules& rules_;
  const TokenStrings& strings_;
  std::vector<ByteSet> sets_;  // of bytes
  std::deque<Item> items_;
  std::deque<Opening> openings_;
  std::unordered_map<uint64_t, int32_t> opening_index_, item_index_;
  std::unordered_map<std::pair<uint64_t, int32_t>, int32_t, OtherHash> other_items_;
  std::unordered_set<uint64_t> ends_;
  std::vector<int32_t> items_to_read_;
  std::unordered_map<uint64_t, Symbol> goal_index_;
  std::vector<Goal> goals_to_write_;
  RuleBuilder builder_;
  int64_t work_ = 0;
};

/// The character at a place of a text, or its byte.
std::string_view character_at(std::string_view text, size_t at) {
  for (size_t size = 1; size <= 4 && at + size <= text.size(); ++size) {
    if (valid_utf8_prefix(text.substr(at, size)) == size) return text.substr(at, size);
  }
  return text.substr(at, 1);
}

[[noreturn]] void refuse(const Rules& rules, const TokenTrie& trie, const ByteSet& bytes) {
  const std::string text = example_text(rules, bytes);
  const size_t at = written_prefix(trie, text);
  constexpr const char* kRefused = "the vocabulary cannot write any text of this format";
  if (at == text.size()) throw_error<ConstraintError>(kRefused);
  size_t from = at > kLongestContext ? at - kLongestContext : 0;
  while (from < at && (static_cast<uint8_t>(text[from]) & 0xC0) == 0x80) ++from;  // not within a character
  const std::string_view before = std::string_view(text).substr(from, at - from);
  const std::string after = before.empty() ? "" : " after " + in_quotes(before);
  throw_error<ConstraintError>(kRefused, ": it has no token for ", in_quotes(character_at(text, at)), after);
}

bool uses_only(const Rules& rules, const ByteSet& bytes) {
  ByteSet used;
  for (const ByteSet& set : rules.sets) used |= set;
  for (size_t byte = 0; byte < 256; ++byte) {
    if (used.test(rules.class_of[byte]) && !bytes.test(byte)) return false;
  }
  return true;
}

}  // namespace

Grammar restricted(const Grammar& grammar, const TokenTrie& trie, const TokenStrings& strings) {
  const Rules& rules = *grammar.rules();
  if (uses_only(rules, strings.single_bytes())) return grammar;
  const auto product = [&](const TokenStrings& own) {
    const std::optional<Grammar> result = Product(rules, own).build();
    if (!result) refuse(rules, trie, strings.bytes);
    return *result;
  };
  try {
    return product(strings);
  } catch (const TooLarge&) {
  }
  try {
    return product({.places = {{{strings.bytes, 0}}}, .bytes = strings.bytes});
  } catch (const TooLarge&) {
    return grammar;
  }
}

}  // namespace attend::grammar
