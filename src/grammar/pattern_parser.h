#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "grammar/code_points.h"

namespace attend::grammar {

/// A node of a parsed regular expression.
struct PatternNode {
  enum class Kind { set, sequence, choice, repeat, begin, end };

  Kind kind = Kind::sequence;
  CodePoints set{};                     ///< Kind::set: one of these code points
  std::vector<PatternNode> children{};  ///< of sequence and choice; the item of repeat
  int64_t least = 0, most = -1;         ///< of repeat; −1: no limit
};

/// Parses an ECMAScript regular expression. Throws FormatError.
PatternNode parse_pattern(std::string_view pattern);

}  // namespace attend::grammar
