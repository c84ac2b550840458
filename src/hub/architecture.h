#pragma once

#include <memory>
#include <string>
#include <vector>

#include "attend/models/generation_rules.h"
#include "attend/models/model.h"
#include "hub/hub_config.h"
#include "hub/hub_weights.h"
#include "hub/name_map.h"

// One entry per "model_type". docs/models.md shows how to add one.
namespace attend::hub {

/// The files that a model is created from.
struct HubFolder {
  std::string path;
  HubConfig config;
  HubWeights weights;

  /// Throws FormatError unless the files hold at least `count` values: a config must not cause larger allocations than
  /// its weights.
  void require_values(double count, const char* what) const;
};

struct HubArchitecture {
  std::string model_type;
  /// Creates our model with the settings of the config; runs under BlankParameters, so that no weights are initialized.
  /// Throws FormatError that names an unsupported setting.
  std::unique_ptr<Model> (*create)(const HubFolder& folder) = nullptr;
  /// The names of its weights in the files.
  NameMap (*names)(const HubFolder& folder, const Model& model) = nullptr;
  /// The config.json for our model. Throws Error that names unsupported settings. Null if export is not supported.
  Json (*describe)(const Model& model) = nullptr;
  /// Converts our model to an equivalent one in the form to be written; null if no conversion is needed.
  std::unique_ptr<Model> (*prepare)(const Model& model) = nullptr;
};

/// All architectures, in the order of src/hub/architectures.cpp.
const std::vector<HubArchitecture>& hub_architectures();

// One function per file, or per variant.
HubArchitecture gpt2();
HubArchitecture llama();
HubArchitecture mistral();
HubArchitecture qwen2();
HubArchitecture qwen3();
HubArchitecture bert();
HubArchitecture distilbert();
/// RoBERTa, and models that differ from it only in `model_type`.
HubArchitecture roberta(const char* model_type);
HubArchitecture bart();
HubArchitecture mbart();
HubArchitecture marian();
HubArchitecture pegasus();
HubArchitecture t5();
HubArchitecture mt5();
HubArchitecture vit();

}  // namespace attend::hub
