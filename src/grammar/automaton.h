#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "grammar/rules.h"

namespace attend::grammar {

/// Reads a text of a grammar byte by byte. A state is the set of all stacks of open rules after the bytes read so far.
/// States and their transitions are computed when they are first needed, and kept. Not thread-safe.
class Automaton {
 public:
  static constexpr int32_t kDead = -1;  ///< state after bytes that begin no text of the grammar

  explicit Automaton(std::shared_ptr<const Rules> rules);

  int32_t start() const { return start_; }
  /// The state after one more byte. Throws ConstraintError if the states exceed the limits.
  int32_t next(int32_t state, uint8_t byte) {
    const int32_t known = transitions_[static_cast<size_t>(state) * rules_->classes + rules_->class_of[byte]];
    return known != kUnknown ? known : find_next(state, rules_->class_of[byte]);
  }
  /// The state if a token ends here: without the meanings in which the last byte is inside a token. kDead if there is
  /// no other.
  int32_t between_tokens(int32_t state);
  /// Whether the bytes read so far are a complete text.
  bool is_complete(int32_t state) const { return states_[static_cast<size_t>(state)]->front() == kDone; }
  /// Whether they are a complete text that no other text continues.
  bool is_final(int32_t state) const { return is_complete(state) && states_[static_cast<size_t>(state)]->size() == 1; }

  /// Whether the cache of states is full. The caller should then continue with a new automaton.
  bool is_full() const;
  /// A state of another automaton of the same rules.
  int32_t adopt(const Automaton& other, int32_t state);

 private:
  /// A stack: the position of the next symbol, and the stack below it. Equal stacks have the same index.
  struct Stack {
    int32_t at = 0, below = kDone;
    int32_t depth = 1;
  };
  using Set = std::vector<int32_t>;  // sorted indices of stacks
  struct SetHash {
    size_t operator()(const Set& set) const;
  };
  static constexpr int32_t kUnknown = -2;
  static constexpr int32_t kDone = -1;  // the empty stack

  int32_t stack(int32_t at, int32_t below);
  void open(int32_t top, Set& result);
  int32_t find_next(int32_t state, uint8_t byte_class);
  int32_t intern(Set set);
  int32_t adopt_stack(const Automaton& other, int32_t top, std::unordered_map<int32_t, int32_t>& known);

  std::shared_ptr<const Rules> rules_;
  bool has_inside_ = false;  // see Rules::is_inside
  std::vector<Stack> stacks_;
  std::unordered_map<uint64_t, int32_t> stack_index_;
  std::unordered_map<Set, int32_t, SetHash> state_index_;
  std::vector<const Set*> states_;       // keys of state_index_
  std::vector<int32_t> transitions_;     // [states, classes]
  std::vector<int32_t> between_tokens_;  // of each state: between_tokens() or kUnknown
  std::vector<uint32_t> opened_;         // of each stack: number of the last round that opened it
  uint32_t round_ = 0;
  int32_t start_ = 0;
};

}  // namespace attend::grammar
