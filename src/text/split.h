#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizers/regex.h"

namespace attend::text {

/// What becomes of the matches when a text is cut at them.
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };
/// "Removed", "MergedWithNext", … in any case, with or without underscores; FormatError otherwise.
SplitBehavior split_behavior(const std::string& name);

/// A stretch between two cuts, and whether the pattern matched it.
struct Stretch {
  Span where;
  bool is_match = false;
};
/// The text as stretches that cover it without a gap; adjacent matches stay apart.
std::vector<Stretch> stretches_of(const Pattern& pattern, std::string_view text, TextWork& work);
/// The same with each code point a match for which is_match(code) is true.
std::vector<Stretch> stretches_of(const std::function<bool(char32_t)>& is_match, std::string_view text);

/// The pieces that remain, none of them empty.
std::vector<Span> pieces_of(const std::vector<Stretch>& stretches, SplitBehavior behavior);

}  // namespace attend::text
