#pragma once

#include "attend/models/gpt.h"
#include "hub/architecture.h"

// What Llama and its relatives share.
namespace attend::hub {

/// The window of a config that does not say, as transformers has it.
constexpr int64_t kUsualWindow = 4096;

/// Reads rotary positions: "rope_parameters" as transformers 5 writes it, or "rope_theta" and "rope_scaling" as before.
void read_rope(const HubConfig& config, GptConfig& result);

/// The sizes by their usual names: RMSNorm, gates, grouped heads, rotary positions, no biases.
GptConfig llama_config(const HubConfig& config);
/// The same, with the output matrix that the files have: see is_output_tied.
GptConfig llama_config(const HubFolder& folder);

/// Reads "layer_types", or where there are none what "use_sliding_window" and "max_window_layers" say (Qwen).
void read_layer_kinds(const HubConfig& config, GptConfig& result);

/// Throws FormatError where the sizes do not fit each other or what is read of the files.
std::unique_ptr<Model> create_language_model(const HubFolder& folder, const GptConfig& config);

NameMap llama_names(const HubFolder& folder, const Model& model);

}  // namespace attend::hub
