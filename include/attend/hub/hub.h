#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "attend/models/generation_rules.h"
#include "attend/models/model.h"
#include "attend/models/vision.h"

// Hugging Face models: folders with config.json, model.safetensors (or shards with an index) and tokenizer files. The
// files are untrusted input.
namespace attend {

/// Whether a folder's config.json is a Hugging Face config.
bool is_hub_folder(const std::string& folder);
/// The values of "model_type" that load_hub_model supports.
std::vector<std::string> hub_model_types();

/// A model and the other settings of its folder.
struct LoadedModel {
  std::unique_ptr<Model> model;
  GenerationRules rules;
  /// The rules of each task that the folder defines ("translation_en_to_de", "summarization"). If the folder defines
  /// only one translation task, `rules` are the rules of this task.
  std::map<std::string, GenerationRules> tasks;
  std::string kind;                 ///< "attend" for this library's own format, else the "model_type"
  std::vector<std::string> unused;  ///< tensors in the files that the model does not use: see HubOptions::allow_unused
  std::vector<std::string> notes;   ///< settings of the files that were ignored or corrected, and why
};

/// How to load the weights.
struct HubOptions {
  /// Keep bf16 matrices of linear layers and embeddings as bf16 (see attend/nn/weight_formats.h). For inference only:
  /// half the memory, and results that are bitwise identical to f32. Otherwise all weights are converted to f32.
  bool keep_bf16 = false;
  /// Load a model even if its files have tensors that the model does not use, or its config.json has unknown settings.
  /// They are listed in LoadedModel::unused and LoadedModel::notes. Such a model does not give the results of the
  /// original one: use it only to describe the model.
  bool allow_unused = false;
};

/// Loads a Hugging Face model. Weights that need no conversion are mapped and used without a copy. They are read-only;
/// to train, copy them into a new model. Throws a FormatError that names the folder, the file and the problem: an
/// unknown architecture, an unsupported or unknown setting of config.json, or a tensor that is missing, has the wrong
/// shape or is not used.
LoadedModel load_hub_model(const std::string& folder, const HubOptions& options = {});

/// The rules of a task in LoadedModel::tasks. Throws an Error that lists the tasks if the name is unknown.
const GenerationRules& rules_for(const std::map<std::string, GenerationRules>& tasks, const std::string& task);

/// Writes the rules to generation_config.json in a folder of this library's format. load_any_model reads them.
void save_generation_rules(const GenerationRules& rules, const std::string& folder);

/// The preprocessing of an image model, from preprocessor_config.json in its folder. Without this file, ViT's
/// preprocessing to the model's image size. Throws FormatError if a setting is not supported or the image size differs.
ImagePreparation read_image_preparation(const std::string& folder, int64_t image_size, int64_t channel_count = 3);

/// Loads a model in any supported format: this library's own (see attend/models/registry.h), a Hugging Face folder, or
/// a llama2.c model (a folder or the file itself).
LoadedModel load_any_model(const std::string& folder, const HubOptions& options = {});

}  // namespace attend
