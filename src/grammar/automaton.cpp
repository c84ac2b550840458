#include "grammar/automaton.h"

#include <algorithm>

#include "attend/base/error.h"

namespace attend::grammar {
namespace {

// An automaton beyond the first limits is replaced; one beyond the others is an error.
constexpr size_t kManyStates = 20'000, kManyStacks = 200'000;
constexpr size_t kMostStates = 400'000, kMostStacks = 4'000'000;
constexpr size_t kMostStacksOfState = 4'000;

}  // namespace

size_t Automaton::SetHash::operator()(const Set& set) const {
  uint64_t hash = 0x9E3779B97F4A7C15;
  for (const int32_t one : set) hash = (hash ^ static_cast<uint32_t>(one)) * 0xD6E8FEB86659FD93, hash ^= hash >> 32;
  return hash;
}

Automaton::Automaton(std::shared_ptr<const Rules> rules)
    : rules_(std::move(rules)), has_inside_(std::ranges::find(rules_->is_inside, true) != rules_->is_inside.end()) {
  Set first;
  ++round_;
  for (const Rules::Alternative& one : rules_->alternatives[static_cast<size_t>(rules_->start)]) {
    open(stack(one.at, kDone), first);
  }
  start_ = intern(std::move(first));
}

bool Automaton::is_full() const { return states_.size() > kManyStates || stacks_.size() > kManyStacks; }

int32_t Automaton::stack(int32_t at, int32_t below) {
  const uint64_t key = uint64_t{static_cast<uint32_t>(at)} << 32 | static_cast<uint32_t>(below);
  const auto [found, is_new] = stack_index_.try_emplace(key, static_cast<int32_t>(stacks_.size()));
  if (!is_new) return found->second;
  require<ConstraintError>(stacks_.size() < kMostStacks, "the schema is too large: more than ", kMostStacks, " stacks");
  stacks_.push_back({at, below, below == kDone ? 1 : stacks_[static_cast<size_t>(below)].depth + 1});
  opened_.push_back(0);
  return found->second;
}

/// Adds the stacks whose next symbol is a byte and which begin with `top` to `result`.
void Automaton::open(int32_t top, Set& result) {
  std::vector<int32_t> list{top};
  while (!list.empty()) {
    const int32_t index = list.back();
    list.pop_back();
    if (index == kDone) {
      if (std::ranges::find(result, kDone) == result.end()) result.push_back(kDone);
      continue;
    }
    if (std::exchange(opened_[static_cast<size_t>(index)], round_) == round_) continue;
    const Stack own = stacks_[static_cast<size_t>(index)];
    const Symbol symbol = rules_->symbols[static_cast<size_t>(own.at)];
    if (symbol == kEnd) {
      list.push_back(own.below);
    } else if (symbol < 0) {
      result.push_back(index);
      require<ConstraintError>(result.size() <= kMostStacksOfState, "the schema is too large: a text has more than ",
                               kMostStacksOfState, " meanings");
    } else {
      const bool is_last = rules_->symbols[static_cast<size_t>(own.at) + 1] == kEnd;
      const int32_t below = is_last ? own.below : stack(own.at + 1, own.below);
      const int32_t depth = is_last ? own.depth : own.depth + 1;
      for (const Rules::Alternative& one : rules_->alternatives[static_cast<size_t>(symbol)]) {
        if (depth + one.need <= kDeepestRules) list.push_back(stack(one.at, below));
      }
    }
  }
}

int32_t Automaton::find_next(int32_t state, uint8_t byte_class) {
  Set result;
  ++round_;
  for (const int32_t index : *states_[static_cast<size_t>(state)]) {
    if (index == kDone) continue;
    const Stack own = stacks_[static_cast<size_t>(index)];
    const Symbol symbol = rules_->symbols[static_cast<size_t>(own.at)];
    if (rules_->sets[static_cast<size_t>(~symbol)].test(byte_class)) open(stack(own.at + 1, own.below), result);
  }
  const int32_t next = result.empty() ? kDead : intern(std::move(result));
  transitions_[static_cast<size_t>(state) * rules_->classes + byte_class] = next;
  return next;
}

int32_t Automaton::between_tokens(int32_t state) {
  if (!has_inside_) return state;
  between_tokens_.resize(states_.size(), kUnknown);
  if (const int32_t known = between_tokens_[static_cast<size_t>(state)]; known != kUnknown) return known;
  Set result;
  for (const int32_t index : *states_[static_cast<size_t>(state)]) {
    const auto is_inside = [&] {
      const Symbol symbol = rules_->symbols[static_cast<size_t>(stacks_[static_cast<size_t>(index)].at)];
      return rules_->is_inside[static_cast<size_t>(~symbol)];
    };
    if (index == kDone || !is_inside()) result.push_back(index);
  }
  const int32_t own = result.empty() ? kDead : intern(std::move(result));
  return between_tokens_[static_cast<size_t>(state)] = own;
}

int32_t Automaton::intern(Set set) {
  std::ranges::sort(set);
  const auto [found, is_new] = state_index_.try_emplace(std::move(set), static_cast<int32_t>(states_.size()));
  if (!is_new) return found->second;
  require<ConstraintError>(states_.size() < kMostStates, "the schema is too large: more than ", kMostStates, " states");
  states_.push_back(&found->first);
  transitions_.resize(states_.size() * rules_->classes, kUnknown);
  return found->second;
}

int32_t Automaton::adopt_stack(const Automaton& other, int32_t top, std::unordered_map<int32_t, int32_t>& known) {
  if (top == kDone) return kDone;
  if (const auto found = known.find(top); found != known.end()) return found->second;
  const Stack& own = other.stacks_[static_cast<size_t>(top)];
  const int32_t result = stack(own.at, adopt_stack(other, own.below, known));  // recursion: at most kDeepestRules
  known.emplace(top, result);
  return result;
}

int32_t Automaton::adopt(const Automaton& other, int32_t state) {
  std::unordered_map<int32_t, int32_t> known;
  Set set;
  for (const int32_t top : *other.states_[static_cast<size_t>(state)]) set.push_back(adopt_stack(other, top, known));
  return intern(std::move(set));
}

}  // namespace attend::grammar

namespace attend {

bool Grammar::matches(std::string_view text) const {
  grammar::Automaton automaton(rules_);
  int32_t state = automaton.start();
  for (const char byte : text) {
    state = automaton.next(state, static_cast<uint8_t>(byte));
    if (state == grammar::Automaton::kDead) return false;
  }
  return automaton.is_complete(state);
}

}  // namespace attend
