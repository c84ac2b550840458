#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizers/regex.h"

namespace attend::text {

/// What happens to the matches when a text is split at them.
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };
/// Parses "Removed", "MergedWithNext", …, ignoring case and underscores. Throws FormatError for other names.
SplitBehavior split_behavior(const std::string& name);

/// A part of a text between two cuts, and whether the pattern matched it.
struct Stretch {
  Span where;
  bool is_match = false;
};
/// Splits the text into stretches that cover it without gaps. Adjacent matches stay separate.
std::vector<Stretch> stretches_of(const Pattern& pattern, std::string_view text, TextWork& work);
/// The same, where each code point with is_match(code) is a match.
std::vector<Stretch> stretches_of(const std::function<bool(char32_t)>& is_match, std::string_view text);

/// The pieces that remain. None of them is empty.
std::vector<Span> pieces_of(const std::vector<Stretch>& stretches, SplitBehavior behavior);

}  // namespace attend::text
