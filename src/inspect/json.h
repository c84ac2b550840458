#pragma once

#include "attend/inspect/heads.h"
#include "attend/inspect/run.h"
#include "attend/io/json.h"

// The run as the page and docs/inspect-format.md know it.
namespace attend {

Json token_json(const ShownToken& token);
/// Without place and word: {"id", "text", "p"}.
Json candidate_json(const ShownCandidate& candidate);
Json side_json(const RunSide& side);
Json attention_json(const RunAttention& attention, int64_t index);
/// Everything but "id" and "model".
Json run_json(const Run& run);
Json heads_json(const Run& run);
Json stats_json(const Run& run, int64_t attention, int64_t head);
Json alignment_json(const WordAlignment& alignment);

/// What a page says of a model.
struct ModelExample {
  std::string text;
  std::optional<std::string> target;
};
Json model_json(const Model& model, const std::string& id, const std::string& name, const ModelExample& example);

/// In one line; bytes that are not UTF-8 become U+FFFD.
std::string json_text(const Json& json);

}  // namespace attend
