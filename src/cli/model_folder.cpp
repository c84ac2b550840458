#include "cli/model_folder.h"

#include <iostream>

#include "attend/base/error.h"
#include "cli/command_line.h"
#include "cli/processes.h"
#include "models/paged_decoding.h"

namespace attend::cli {
namespace {

bool has_labels(const EncoderModel& model) { return !model.labels().empty(); }

/// Describes the model, and names the command that uses it.
std::string kind_of(const ModelFolder& folder) {
  switch (folder.model->kind()) {
    case ModelKind::translation:
      return "a translation model: use attend translate";
    case ModelKind::language:
      return "a language model: use attend generate";
    case ModelKind::pictures:
      return "an image classifier: use attend classify";
    case ModelKind::classification:
      break;
  }
  const auto& encoder = dynamic_cast<const EncoderModel&>(*folder.model);
  if (has_labels(encoder)) return "a text classifier: use attend classify";
  const std::string training =
      "; to classify texts, first train it on labelled texts: attend train encoder LABELLED.tsv --from " + folder.path;
  return (encoder.has_masked_head() ? "a masked-word model: use attend fill"
                                    : "a text encoder without a masked-word head: use attend embed") +
         training;
}

[[noreturn]] void refuse(const ModelFolder& folder) { throw Error(folder.path + ": this is " + kind_of(folder)); }

template <class Kind>
const Kind& model_as(const ModelFolder& folder) {
  const auto* model = dynamic_cast<const Kind*>(folder.model.get());
  if (model == nullptr) refuse(folder);
  return *model;
}

}  // namespace

ModelFolder open_model(const std::string& path, const WeightOptions& weights, Device device) {
  const PrecisionScope precision(weights.precision(device), device);  // for packed weights
  return attend::open_model(
      path, {.format = weights.format(), .keep_bf16 = weights.keeps_bf16(), .packs = weights.packs, .device = device});
}

void choose_task(ModelFolder& folder, const std::string& task) {
  if (task.empty()) return;
  try {
    folder.rules = GenerationRules(rules_for(folder.tasks, task));
  } catch (const Error& error) {
    throw UsageError("--task: " + folder.path + ": " + error.what());
  }
}

void check_cache(const ModelFolder& folder, const CacheOptions& cache) {
  if (cache.dtype() && !has_keys_and_values(*folder.model)) {
    throw UsageError("--cache has no effect on " + folder.path + ": this model keeps no keys and values");
  }
}

void warn_unfollowed(const ModelFolder& folder) {
  std::string keys;
  for (const std::string& key : folder.rules.unfollowed) keys += (keys.empty() ? "" : ", ") + key;
  if (!keys.empty() && is_first_process())
    std::cerr << "attend: " << folder.path << ": unsupported generation settings are ignored: " << keys << '\n';
}

const PairModel& pair_model(const ModelFolder& folder) { return model_as<PairModel>(folder); }
const LanguageModel& language_model(const ModelFolder& folder) { return model_as<LanguageModel>(folder); }

const EncoderModel& labelled_model(const ModelFolder& folder) {
  const auto& model = model_as<EncoderModel>(folder);
  if (!has_labels(model)) refuse(folder);
  return model;
}

const EncoderModel& masked_model(const ModelFolder& folder) {
  const auto& model = model_as<EncoderModel>(folder);
  if (has_labels(model) || !model.has_masked_head()) refuse(folder);
  return model;
}

const ImageModel& image_model(const ModelFolder& folder) { return model_as<ImageModel>(folder); }

}  // namespace attend::cli
