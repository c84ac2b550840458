#pragma once

#include <string>
#include <vector>

#include "attend/models/generation_rules.h"
#include "attend/models/model.h"
#include "attend/text/tokenizer.h"

namespace attend {

/// The Hugging Face architectures that models can be exported to.
std::vector<std::string> hub_targets();
/// The Hugging Face architectures that this model can be exported to, most common first.
std::vector<std::string> hub_targets(const Model& model);

/// The first of hub_targets(model). If there is none, throws an Error that names the unsupported settings and the
/// supported values.
std::string default_hub_target(const Model& model);

/// Throws a FormatError that names the parameter if a parameter has NaN or ±∞. Such a model must not be exported.
void check_finite_weights(const Model& model);

/// Exports a model to Hugging Face format: writes config.json, generation_config.json, model.safetensors and tokenizer
/// files for the architecture `to` ("gpt2"). The exported model gives the same results in transformers. `rules` are the
/// generation settings of the folder that the model was imported from, if any. The folder is created atomically. Throws
/// an Error that names the settings if `to` does not support them, an Error if the folder exists, and FormatError as
/// check_finite_weights does.
void save_hub_model(const Model& model, const Tokenizer& tokenizer, const std::string& to, const std::string& folder,
                    const GenerationRules& rules = {});

}  // namespace attend
