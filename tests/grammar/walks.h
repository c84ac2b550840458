#pragma once

#include <gtest/gtest.h>

#include <string>

#include "attend/base/random.h"
#include "grammar/automaton.h"

namespace attend::testing {

/// Random numbers from a counter.
class Draws {
 public:
  explicit Draws(uint64_t seed) : seed_(seed) {}
  uint32_t below(size_t count) { return philox(seed_, ++at_, 0)[0] % static_cast<uint32_t>(count); }

 private:
  uint64_t seed_, at_ = 0;
};

/// A random text of a grammar. After `soon` bytes, chooses bytes that close something.
inline std::string random_text(const Grammar& grammar, uint64_t seed, size_t soon = 200) {
  grammar::Automaton automaton(grammar.rules());
  Draws draws(seed);
  std::string text;
  int32_t state = automaton.start();
  while (text.size() < 20'000) {
    const bool may_end = automaton.is_complete(state);
    if (automaton.is_final(state) || (may_end && draws.below(text.size() < soon ? 4 : 1) == 0)) return text;
    std::string allowed;
    for (int byte = 0; byte < 256; ++byte) {
      if (automaton.next(state, static_cast<uint8_t>(byte)) != grammar::Automaton::kDead) {
        allowed += static_cast<char>(byte);
      }
    }
    if (allowed.empty()) break;  // a dead end
    char chosen = allowed[draws.below(allowed.size())];
    std::string closing;  // bytes that end a value, or that the patterns of the tests ask for
    for (const char close : std::string("x天n01@}]\"")) {
      if (allowed.find(close) != std::string::npos) closing += close;
    }
    const bool closes = !closing.empty() && (text.size() > soon || draws.below(6) == 0);
    if (closes) chosen = closing[draws.below(closing.size())];
    text += chosen;
    state = automaton.next(state, static_cast<uint8_t>(chosen));
  }
  ADD_FAILURE() << "the walk does not end: " << text.substr(0, 300);
  return text;
}

}  // namespace attend::testing
