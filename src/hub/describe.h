#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "attend/models/gpt.h"

// Our settings as transformers writes them.
namespace attend::hub {

/// Throws Error "gpt2: there is no SETTING there" unless `ok`.
void require_setting(bool ok, const char* to, const std::string& setting);

/// The model as the struct an architecture is made of; throws Error if it is another one.
template <class M>
const M& model_of(const Model& model, const char* to) {
  const auto* found = dynamic_cast<const M*>(&model);
  require<Error>(found != nullptr, to, ": a model of architecture ", model.architecture(),
                 " cannot be written as this");
  return *found;
}

/// transformers' name of an activation.
const char* activation_name(Activation activation);

/// What Llama and its relatives share; each adds its own, and refuses what it has not.
nlohmann::ordered_json llama_json(const GptConfig& config, const char* to);

}  // namespace attend::hub
