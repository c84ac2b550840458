#include "attend/hub/convert.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "attend/io/files.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"
#include "hub/architecture.h"
#include "hub/describe.h"
#include "hub/save_tokenizer.h"
#include "io/scratch_folder.h"

namespace attend {
namespace {

namespace fs = std::filesystem;
using Ordered = Json;

const hub::HubArchitecture& writable(const std::string& to) {
  std::string names;
  for (const hub::HubArchitecture& one : hub::hub_architectures()) {
    if (one.describe == nullptr) continue;
    if (one.model_type == to) return one;
    names += names.empty() ? one.model_type : ", " + one.model_type;
  }
  throw Error("convert: cannot export to architecture '" + to + "'; expected one of " + names);
}

}  // namespace

std::vector<std::string> hub_targets() {
  std::vector<std::string> result;
  for (const hub::HubArchitecture& one : hub::hub_architectures()) {
    if (one.describe != nullptr) result.push_back(one.model_type);
  }
  return result;
}

std::vector<std::string> hub_targets(const Model& model) {
  std::vector<std::string> result;
  for (const hub::HubArchitecture& one : hub::hub_architectures()) {
    if (one.describe == nullptr) continue;
    try {
      one.describe(model);
      result.push_back(one.model_type);
    } catch (const Error&) {  // another kind of model, or a setting that the architecture does not support
    }
  }
  return result;
}

std::string default_hub_target(const Model& model) {
  std::optional<hub::SettingsError> nearest;
  for (const hub::HubArchitecture& one : hub::hub_architectures()) {
    if (one.describe == nullptr) continue;
    try {
      one.describe(model);
      return one.model_type;
    } catch (const hub::SettingsError& error) {
      if (!nearest || error.count < nearest->count) nearest = error;
    } catch (const Error&) {  // another kind of model
    }
  }
  if (nearest) throw *nearest;
  throw Error("architecture " + model.architecture() + " cannot be exported to Hugging Face format; transformer, gpt " +
              "and encoder can");
}

void check_finite_weights(const Model& model) {
  for (const auto& [name, tensor] : model.parameters()) {
    const Tensor values = contiguous(to(tensor.detach(), DType::f32));
    const auto all = values.data<const float>();
    const bool is_finite = std::ranges::all_of(all, [](float value) { return std::isfinite(value); });
    require<FormatError>(is_finite, "parameter ", name, " contains NaN or infinity: the weights are damaged");
  }
}

void save_hub_model(const Model& model, const Tokenizer& tokenizer, const std::string& to, const std::string& folder,
                    const GenerationRules& rules) {
  const hub::HubArchitecture& architecture = writable(to);
  require<Error>(!fs::exists(folder) || (fs::is_directory(folder) && fs::is_empty(folder)), folder,
                 " already exists; choose another folder");
  check_finite_weights(model);
  const hub::Written written{model, tokenizer, rules};
  Ordered config = architecture.describe(model);
  const std::unique_ptr<Model> prepared = architecture.prepare ? architecture.prepare(model) : nullptr;
  const Model& form = prepared ? *prepared : model;
  config["model_type"] = to;
  config.update(hub::token_ids(written));
  config["dtype"] = config["torch_dtype"] = "float32";
  const hub::HubFolder described{folder, hub::HubConfig(config.dump(), folder + "/config.json"),
                                 hub::HubWeights::from_tensors({}, folder)};
  const std::vector<NamedTensor> weights = hub::weights_of(form, architecture.names(described, form));

  std::error_code error;
  if (const fs::path parent = fs::path(folder).parent_path(); !parent.empty()) fs::create_directories(parent, error);
  ScratchFolder scratch(folder + ".new", folder + ": cannot create this folder");
  write_safetensors(scratch.path() + "/model.safetensors", weights, {{"format", "pt"}});
  write_file(scratch.path() + "/config.json", config.dump(2) + "\n");
  if (model.kind() != ModelKind::classification) {
    write_file(scratch.path() + "/generation_config.json", hub::generation_json(written).dump(2) + "\n");
  }
  hub::save_tokenizer(written, to, scratch.path());
  fs::rename(scratch.path(), folder, error);
  require<Error>(!error, folder, ": cannot create this folder: ", error.message());
  scratch.release();
  remove_mark(folder);
}

}  // namespace attend
