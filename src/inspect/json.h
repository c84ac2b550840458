#pragma once

#include <nlohmann/json.hpp>

#include "attend/inspect/heads.h"
#include "attend/inspect/run.h"

// The run as the page and docs/inspect-format.md know it.
namespace attend {

using InspectJson = nlohmann::ordered_json;

InspectJson token_json(const ShownToken& token);
/// Without place and word: {"id", "text", "p"}.
InspectJson candidate_json(const ShownCandidate& candidate);
InspectJson side_json(const RunSide& side);
InspectJson attention_json(const RunAttention& attention, int64_t index);
/// Everything but "id" and "model".
InspectJson run_json(const Run& run);
InspectJson heads_json(const Run& run);
InspectJson stats_json(const Run& run, int64_t attention, int64_t head);
InspectJson alignment_json(const WordAlignment& alignment);

/// What a page says of a model.
struct ModelExample {
  std::string text;
  std::optional<std::string> target;
};
InspectJson model_json(const Model& model, const std::string& id, const std::string& name, const ModelExample& example);

/// In one line; bytes that are not UTF-8 become U+FFFD.
std::string json_text(const InspectJson& json);

}  // namespace attend
