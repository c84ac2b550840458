#pragma once

#include <span>
#include <vector>

#include "serve/answer_shape.h"
#include "serve/model_entry.h"

namespace attend {

/// The tokens of a prompt with their log-probabilities and the `count` likeliest alternatives. The first token has
/// none. Call it in the scheduler's thread.
std::vector<TokenRecord> prompt_scores(const ModelEntry& model, std::span<const int32_t> prompt, int64_t count);

}  // namespace attend
