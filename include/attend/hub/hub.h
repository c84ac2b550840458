#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "attend/models/generation_rules.h"
#include "attend/models/model.h"
#include "attend/models/vision.h"

// Models as people download them: folders of config.json, model.safetensors (or shards with an index) and tokenizer
// files, as Hugging Face's transformers writes them. Nothing in them is trusted.
namespace attend {

/// Whether a folder's config.json is one of transformers', not of ours.
bool is_hub_folder(const std::string& folder);
/// The kinds of model ("model_type") that load_hub_model takes.
std::vector<std::string> hub_model_types();

/// A model with what its folder says beside the weights.
struct LoadedModel {
  std::unique_ptr<Model> model;
  GenerationRules rules;
  /// The same for each task that the folder tells apart ("translation_en_to_de", "summarization"), in "rules" already
  /// where there is one translation alone.
  std::map<std::string, GenerationRules> tasks;
  std::string kind;                 ///< "attend" for a folder of ours, else the "model_type"
  std::vector<std::string> unused;  ///< tensors that the model has no place for: see HubOptions::allow_unused
  std::vector<std::string> notes;   ///< where the files were not taken at their word
};

/// How weights are held.
struct HubOptions {
  /// Matrices of linear layers and embeddings that are bf16 in the files stay so (see attend/nn/weight_formats.h), for
  /// inference alone: half the memory, and the results of f32 to the bit. Else everything becomes f32.
  bool keep_bf16 = false;
  /// Load a model even if its files hold weights that it has no place for, in LoadedModel::unused, or its config.json
  /// has settings that nothing here knows, in LoadedModel::notes. Its results are then not those of the files: to
  /// describe it, never to compute with it.
  bool allow_unused = false;
};

/// Runs any such folder on our own models, its weights mapped and used where they lie if they are held as they are
/// there and laid out as ours. Those are read-only: copy them into a fresh model to train. Throws FormatError that
/// names the folder, the file and what is wrong with it: an unknown architecture, a setting of config.json that is not
/// supported or not known, a tensor that is missing, of another shape, or not used.
LoadedModel load_hub_model(const std::string& folder, const HubOptions& options = {});

/// One of LoadedModel::tasks. Throws Error that lists them if there is none of that name.
const GenerationRules& rules_for(const std::map<std::string, GenerationRules>& tasks, const std::string& task);

/// Writes the rules into a folder of ours, as generation_config.json; load_any_model reads them again.
void save_generation_rules(const GenerationRules& rules, const std::string& folder);

/// How the folder of a model of pictures wants them, from its preprocessor_config.json; without one as ViT's are, in
/// the size that the model takes. Throws FormatError for what is not supported, or gives another size.
ImagePreparation read_image_preparation(const std::string& folder, int64_t image_size, int64_t channel_count = 3);

/// Reads a folder of any kind: ours (see attend/models/registry.h), a Hugging Face one, or one with a model of llama2.c
/// (or that file itself).
LoadedModel load_any_model(const std::string& folder, const HubOptions& options = {});

}  // namespace attend
