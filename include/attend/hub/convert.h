#pragma once

#include <string>
#include <vector>

#include "attend/models/generation_rules.h"
#include "attend/models/model.h"
#include "attend/text/tokenizer.h"

namespace attend {

/// The architectures of transformers that models of ours can be written as.
std::vector<std::string> hub_targets();
/// Those that this model can be written as, most usual first.
std::vector<std::string> hub_targets(const Model& model);

/// The first of these. Throws Error if there is none: it names the settings that are in the way, and what would do.
std::string default_hub_target(const Model& model);

/// Throws FormatError that names a parameter with NaN or infinity in it: such a model computes nothing, and is not to
/// be passed on.
void check_finite_weights(const Model& model);

/// Writes config.json, generation_config.json, model.safetensors and tokenizer files as transformers' architecture `to`
/// ("gpt2"), which gives the same results there; `rules` are those of the folder a model came from, if it began as
/// somebody else's. The folder appears whole or not at all. Throws Error if the model has settings that the
/// architecture does not support, by name, or if the folder exists already; FormatError as check_finite_weights does.
void save_hub_model(const Model& model, const Tokenizer& tokenizer, const std::string& to, const std::string& folder,
                    const GenerationRules& rules = {});

}  // namespace attend
