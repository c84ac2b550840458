#pragma once

#include <cstdint>

// Drafts make generation on the CPU faster and change no bit of its results. A step guesses the next tokens from the
// text so far, reads the newest token and the guesses together, and keeps the guesses that are right.
namespace attend {

/// Default and largest value of `draft_tokens`, the maximum number of guesses for a text in a step; 0: no drafts. With
/// the newest token there are then 8 or 16 tokens: products read the weights once for so many rows.
inline constexpr int64_t kDraftTokens = 7, kMostDraftTokens = 15;

}  // namespace attend
