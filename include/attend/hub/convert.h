#pragma once

#include <string>
#include <vector>

#include "attend/models/model.h"
#include "attend/text/tokenizer.h"

namespace attend {

/// The architectures of transformers that a model of ours can be written as, most usual first.
std::vector<std::string> hub_targets(const Model& model);

/// Writes config.json, generation_config.json, model.safetensors and tokenizer files as transformers' architecture `to`
/// ("gpt2"), which gives the same results there. The folder appears whole or not at all. Throws Error if the model has
/// a setting that the architecture has not, by name, or if the folder is there already.
void save_hub_model(const Model& model, const Tokenizer& tokenizer, const std::string& to, const std::string& folder);

}  // namespace attend
