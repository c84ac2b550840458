#include <algorithm>
#include <queue>

#include "grammar/restriction.h"

namespace attend::grammar {
namespace {

constexpr int64_t kMissingByte = 1'000'000, kNever = INT64_MAX / 4;
constexpr size_t kLongestExample = 1'000;

/// Finds the cheapest text of each rule, the cheapest rules first (Knuth, 1977: A generalization of Dijkstra's
/// algorithm). A byte costs 1, a byte that is missing kMissingByte.
class Examples {
 public:
  Examples(const Rules& rules, const ByteSet& bytes)
      : rules_(rules), best_(rules.alternatives.size(), -1), users_(rules.alternatives.size()) {
    for (const ByteSet& classes : rules.sets) bytes_.push_back(cheapest_byte(classes, bytes));
    for (size_t rule = 0; rule < rules.alternatives.size(); ++rule) {
      for (const Rules::Alternative& one : rules.alternatives[rule]) add(static_cast<Symbol>(rule), one.at);
    }
    while (!queue_.empty()) {
      const auto [cost, index] = queue_.top();
      queue_.pop();
      close(cost, index);
    }
  }

  std::string text() const {
    std::string result;
    std::vector<int32_t> stack{at(rules_.start)};
    while (!stack.empty() && result.size() < kLongestExample) {
      const Symbol symbol = rules_.symbols[static_cast<size_t>(stack.back()++)];
      if (symbol == kEnd) {
        stack.pop_back();
      } else if (symbol < 0) {
        result += bytes_[static_cast<size_t>(~symbol)].byte;
      } else {
        stack.push_back(at(symbol));
      }
    }
    return result;
  }

 private:
  struct Byte {
    char byte = 0;
    int64_t cost = 0;
  };
  struct Alternative {
    Symbol rule = 0;
    int32_t at = 0, open = 0;  // `open`: number of its rules whose cost is not known
    int64_t cost = 0;
  };

  Byte cheapest_byte(const ByteSet& classes, const ByteSet& bytes) const {
    Byte result{.byte = 0, .cost = kNever};
    for (size_t byte = 0; byte < 256; ++byte) {
      const int64_t cost = bytes.test(byte) ? 1 : kMissingByte;
      if (classes.test(rules_.class_of[byte]) && cost < result.cost) result = {static_cast<char>(byte), cost};
    }
    return result;
  }

  void add(Symbol rule, int32_t at) {
    const auto index = alternatives_.size();
    Alternative own{.rule = rule, .at = at};
    for (auto i = static_cast<size_t>(at); rules_.symbols[i] != kEnd; ++i) {
      const Symbol symbol = rules_.symbols[i];
      if (symbol < 0) {
        own.cost = std::min(own.cost + bytes_[static_cast<size_t>(~symbol)].cost, kNever);
      } else {
        ++own.open;
        users_[static_cast<size_t>(symbol)].push_back(index);
      }
    }
    alternatives_.push_back(own);
    if (own.open == 0) queue_.emplace(own.cost, index);
  }

  void close(int64_t cost, size_t index) {
    int64_t& best = best_[static_cast<size_t>(alternatives_[index].rule)];
    if (best >= 0) return;
    best = static_cast<int64_t>(index);
    for (const size_t user : users_[static_cast<size_t>(alternatives_[index].rule)]) {
      Alternative& own = alternatives_[user];
      own.cost = std::min(own.cost + cost, kNever);
      if (--own.open == 0) queue_.emplace(own.cost, user);
    }
  }

  /// The first position of the cheapest alternative.
  int32_t at(Symbol rule) const { return alternatives_[static_cast<size_t>(best_[static_cast<size_t>(rule)])].at; }

  const Rules& rules_;
  std::vector<Byte> bytes_;  // of each set
  std::vector<Alternative> alternatives_;
  std::vector<int64_t> best_;               // of each rule: its cheapest alternative; −1: not known
  std::vector<std::vector<size_t>> users_;  // of each rule: the alternatives that use it, once for each use
  using Entry = std::pair<int64_t, size_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
};

}  // namespace

std::string example_text(const Rules& rules, const ByteSet& bytes) { return Examples(rules, bytes).text(); }

}  // namespace attend::grammar
