#pragma once

#include <cstdint>

// Drafts make generation on the CPU faster and change no bit of its results. A step guesses the next tokens from the
// text so far, reads the newest token and the guesses together, and keeps the guesses that are right.
namespace attend {

/// Default and largest value of `draft_tokens`, the maximum number of guesses for a text in a step; 0 turns drafts off.
/// A step reads the guesses and the newest token, up to 8 or 16 tokens in all. A matrix product of up to 16 rows reads
/// its weights only once.
inline constexpr int64_t kDraftTokens = 7, kMostDraftTokens = 15;

}  // namespace attend
