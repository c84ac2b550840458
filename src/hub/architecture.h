#pragma once

#include <memory>
#include <string>
#include <vector>

#include "attend/models/generation_rules.h"
#include "attend/models/model.h"
#include "hub/hub_config.h"
#include "hub/hub_weights.h"
#include "hub/name_map.h"

// One entry for each "model_type": docs/models.md shows on an example how one is added.
namespace attend::hub {

/// What a model is made from.
struct HubFolder {
  std::string path;
  HubConfig config;
  HubWeights weights;

  /// Throws FormatError unless the files hold at least that many values: a config must not make us allocate more than
  /// came with it.
  void require_values(double count, const char* what) const;
};

struct HubArchitecture {
  std::string model_type;
  /// Our model with the settings of the config, made under BlankParameters: nothing is drawn. Throws FormatError by
  /// name for an option that is not supported.
  std::unique_ptr<Model> (*create)(const HubFolder& folder) = nullptr;
  /// Where its weights are.
  NameMap (*names)(const HubFolder& folder, const Model& model) = nullptr;
  /// Its config.json for a model of ours; throws Error that names a setting it has not. Null: it is only read.
  Json (*describe)(const Model& model) = nullptr;
  /// A model that gives the same in the form that it is written in; null where that is the model itself.
  std::unique_ptr<Model> (*prepare)(const Model& model) = nullptr;
};

/// All there are, in the order of src/hub/architectures.cpp.
const std::vector<HubArchitecture>& hub_architectures();

// One function for each file.
HubArchitecture gpt2();
HubArchitecture llama();
HubArchitecture mistral();
HubArchitecture qwen2();
HubArchitecture qwen3();
HubArchitecture bert();
HubArchitecture distilbert();
/// Also of the models that differ from it in name alone.
HubArchitecture roberta(const char* model_type);
HubArchitecture bart();
HubArchitecture mbart();
HubArchitecture marian();
HubArchitecture pegasus();
HubArchitecture t5();
HubArchitecture mt5();
HubArchitecture vit();

}  // namespace attend::hub
