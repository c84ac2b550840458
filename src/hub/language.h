#pragma once

#include "attend/models/gpt.h"
#include "hub/architecture.h"

// Common parts of Llama and its relatives.
namespace attend::hub {

/// transformers' default for a config without "sliding_window".
constexpr int64_t kUsualWindow = 4096;

/// Reads rotary positions: "rope_parameters" of transformers 5, or the older "rope_theta" and "rope_scaling".
void read_rope(const HubConfig& config, GptConfig& result);

/// The sizes by their usual names, with RMSNorm, gates, grouped heads, rotary positions and no biases.
GptConfig llama_config(const HubConfig& config);
/// The same, with the output matrix of the files: see is_output_tied.
GptConfig llama_config(const HubFolder& folder);

/// Reads "layer_types" or, without them, "use_sliding_window" and "max_window_layers" (Qwen).
void read_layer_kinds(const HubConfig& config, GptConfig& result);

/// Creates the model. Throws FormatError if the settings contradict each other or the architecture is not supported.
std::unique_ptr<Model> create_language_model(const HubFolder& folder, const GptConfig& config);

NameMap llama_names(const HubFolder& folder, const Model& model);

}  // namespace attend::hub
