#pragma once

#include <optional>
#include <string>
#include <vector>

#include "attend/generate/sampling.h"
#include "attend/grammar/constraint.h"
#include "attend/grammar/tool_calls.h"
#include "serve/model_entry.h"
#include "serve/request_fields.h"

namespace attend {

/// Which attention weights a response contains: the field "attend".
struct LookSettings {
  std::vector<int64_t> layers{}, heads{};  ///< empty: all
  int64_t top = 5;                         ///< number of largest weights for each head
};

/// The fields of a generating request that OpenAI's completions and chat completions share.
struct GenerationSettings {
  int64_t n = 1;
  std::optional<int64_t> max_tokens{};
  SamplingOptions sampling{};
  std::string sampling_field{};  ///< the first field of sampling that was given; empty: none
  std::optional<int64_t> beam{};
  std::vector<std::string> stop{};
  bool ignores_end = false, streams = false, includes_usage = false, echoes = false, returns_ids = false;
  std::optional<int64_t> logprobs{};  ///< number of alternatives; empty: no log-probabilities
  std::optional<LookSettings> look{};
  std::shared_ptr<const Constraint> constraint{};  ///< of response_format or tools; null: any text
  ToolRequest tools{};                             ///< without tools: the text is not searched for calls
  ToolFormat tool_format = ToolFormat::none;
  std::string user{};  ///< users take turns in the queue
};

/// Reads and checks the shared fields. Throws RequestError.
GenerationSettings read_generation(RequestFields& fields, const ModelEntry& model);
/// Reads the fields of "attend". Throws RequestError if the model does not have the layers or heads.
LookSettings read_look(RequestFields fields, const Model& model);
/// Reads the fields of tools, for a chat template with this text.
void read_tool_fields(RequestFields& fields, const ModelEntry& model, GenerationSettings& settings);

/// The most alternatives for each token that a request may ask for.
constexpr int64_t kMostLogprobs = 20;

}  // namespace attend
