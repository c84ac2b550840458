#pragma once

#include <string>

#include "cli/explain_steps.h"
#include "cli/terminal.h"

namespace attend::cli {

struct PrintOptions {
  std::string text;
  int64_t limit = 24;           ///< maximum number of tokens in the tables
  std::string language = "en";  ///< "en" or "zh"
};
void print_steps(const Terminal& terminal, const ExplainSteps& steps, const PrintOptions& options);

/// All numbers as one JSON object; −∞ is null. Keys: text, tokens, seed, dim, heads, causal, trainable, scale,
/// embeddings, positions, x, matrices {query, key, value, output}, per_head [{queries, keys, values, dot_products,
/// scaled, masked, weights, context}], output. Absent values are null.
std::string steps_to_json(const ExplainSteps& steps, const std::string& text);

}  // namespace attend::cli
