#include "text/split.h"

#include <algorithm>

#include "attend/base/error.h"
#include "io/printable.h"
#include "text/unicode.h"

namespace attend::text {
namespace {

std::vector<Span> merged_with_previous(const std::vector<Stretch>& stretches) {
  std::vector<Span> pieces;
  bool previous_matched = false;
  for (const auto& [where, is_match] : stretches) {
    if (is_match && !previous_matched && !pieces.empty())
      pieces.back().end = where.end;
    else
      pieces.push_back(where);
    previous_matched = is_match;
  }
  return pieces;
}

std::vector<Span> merged_with_next(const std::vector<Stretch>& stretches) {
  std::vector<Span> pieces;  // in reverse order
  bool next_matched = false;
  for (size_t i = stretches.size(); i-- > 0;) {
    const auto& [where, is_match] = stretches[i];
    if (is_match && !next_matched && !pieces.empty())
      pieces.back().begin = where.begin;
    else
      pieces.push_back(where);
    next_matched = is_match;
  }
  std::ranges::reverse(pieces);
  return pieces;
}

std::vector<Span> contiguous(const std::vector<Stretch>& stretches) {
  std::vector<Span> pieces;
  for (size_t i = 0; i < stretches.size(); ++i) {
    if (i > 0 && stretches[i].is_match == stretches[i - 1].is_match)
      pieces.back().end = stretches[i].where.end;
    else
      pieces.push_back(stretches[i].where);
  }
  return pieces;
}

std::vector<Span> separate(const std::vector<Stretch>& stretches, bool with_matches) {
  std::vector<Span> pieces;
  for (const auto& [where, is_match] : stretches) {
    if (with_matches || !is_match) pieces.push_back(where);
  }
  return pieces;
}

}  // namespace

SplitBehavior split_behavior(const std::string& name) {
  std::string letters;
  for (const char c : name) {
    if (c != '_') letters += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  }
  if (letters == "removed") return SplitBehavior::removed;
  if (letters == "isolated") return SplitBehavior::isolated;
  if (letters == "mergedwithprevious") return SplitBehavior::merged_with_previous;
  if (letters == "mergedwithnext") return SplitBehavior::merged_with_next;
  if (letters == "contiguous") return SplitBehavior::contiguous;
  throw FormatError("unknown split behavior " + in_quotes(name));
}

std::vector<Stretch> stretches_of(const Pattern& pattern, std::string_view text, TextWork& work) {
  std::vector<Stretch> result;
  size_t at = 0;
  pattern.for_each_match(text, work, [&](Span match) {
    if (match.begin > at) result.push_back({{at, match.begin}, false});
    result.push_back({match, true});
    at = match.end;
  });
  if (at < text.size()) result.push_back({{at, text.size()}, false});
  return result;
}

std::vector<Stretch> stretches_of(const std::function<bool(char32_t)>& is_match, std::string_view text) {
  std::vector<Stretch> result;
  size_t end = 0;
  for_each_code_point(text, [&](char32_t code, std::string_view bytes) {
    const size_t begin = end;
    end += bytes.size();
    const bool match = is_match(code);
    if (!match && !result.empty() && !result.back().is_match)
      result.back().where.end = end;
    else
      result.push_back({{begin, end}, match});
  });
  return result;
}

std::vector<Span> pieces_of(const std::vector<Stretch>& stretches, SplitBehavior behavior) {
  std::vector<Span> pieces;
  switch (behavior) {
    case SplitBehavior::removed:
      pieces = separate(stretches, false);
      break;
    case SplitBehavior::isolated:
      pieces = separate(stretches, true);
      break;
    case SplitBehavior::merged_with_previous:
      pieces = merged_with_previous(stretches);
      break;
    case SplitBehavior::merged_with_next:
      pieces = merged_with_next(stretches);
      break;
    case SplitBehavior::contiguous:
      pieces = contiguous(stretches);
      break;
  }
  std::erase_if(pieces, [](Span piece) { return piece.begin == piece.end; });
  return pieces;
}

}  // namespace attend::text
