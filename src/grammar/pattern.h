#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/code_points.h"

namespace attend::grammar {

/// A deterministic automaton over code points. State 0 is the start. Each state can reach an accepting one.
struct Dfa {
  struct Edge {
    CodePoints on;  ///< disjoint from the other edges
    int32_t to = 0;
  };
  struct State {
    std::vector<Edge> edges;
    bool accepts = false;
  };
  std::vector<State> states;

  bool matches(std::u32string_view text) const;
};

/// The texts in which an ECMAScript regular expression (flag u) matches: anywhere, unless ^ or $ anchors it. Throws
/// FormatError for look-around, back-references, \b, syntax errors, and patterns that are too large or match nothing.
Dfa compile_pattern(std::string_view pattern);
/// All texts except these.
Dfa texts_except(const std::vector<std::string>& texts);
/// The texts of `dfa` with `least` to `most` code points.
Dfa with_length(const Dfa& dfa, int64_t least, std::optional<int64_t> most);

/// Removes states that reach no accepting state. Throws FormatError if no state is left.
Dfa pruned(const Dfa& dfa);

}  // namespace attend::grammar
