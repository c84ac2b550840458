#pragma once

#include "attend/inspect/heads.h"
#include "attend/inspect/run.h"
#include "attend/io/json.h"

// The JSON of a run, read by the page and specified in docs/inspect-format.md.
namespace attend {

Json token_json(const ShownToken& token);
/// {"id", "text", "p"}: without the token's position and word.
Json candidate_json(const ShownCandidate& candidate);
Json side_json(const RunSide& side);
Json attention_json(const RunAttention& attention, int64_t index);
/// Everything but "id" and "model".
Json run_json(const Run& run);
Json heads_json(const Run& run);
Json stats_json(const Run& run, int64_t attention, int64_t head);
Json alignment_json(const WordAlignment& alignment);

/// The example input that the page offers for a model.
struct ModelExample {
  std::string text;
  std::optional<std::string> target;
};
Json model_json(const Model& model, const std::string& id, const std::string& name, const ModelExample& example,
                int64_t beam);

/// The JSON as one line. Bytes that are not UTF-8 become U+FFFD.
std::string json_text(const Json& json);

}  // namespace attend
