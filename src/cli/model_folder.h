#pragma once

#include <memory>
#include <string>

#include "attend/hub/hub.h"
#include "attend/text/tokenizer.h"
#include "cli/shared_options.h"

namespace attend::cli {

/// A model with its tokenizer.
struct ModelFolder {
  std::string path;
  std::unique_ptr<Model> model;
  std::shared_ptr<const Tokenizer> tokenizer;  ///< none for a model of pictures
  GenerationRules rules;
  std::map<std::string, GenerationRules> tasks;  ///< see LoadedModel
  std::string kind;                              ///< see LoadedModel
  std::vector<std::string> unused;               ///< see LoadedModel
  std::vector<std::string> notes;                ///< see LoadedModel
};
/// Takes a folder of either kind, see load_any_model, with its weights as the options say: matrices in bf16 stay so by
/// default. Throws FormatError that names the folder and what is wrong with it.
ModelFolder open_model(const std::string& path, const WeightOptions& weights = {});
/// The same to describe, not to compute: where there is no tokenizer that fits, a note says so, and weights that the
/// model has no place for are listed.
ModelFolder open_to_describe(const std::string& path);
/// Goes by the rules of a task, unless it is "". Throws a usage error that lists the folder's tasks.
void choose_task(ModelFolder& folder, const std::string& task);

/// Says on standard error, in one line, which of the folder's rules of generation are not followed, if any.
void warn_unfollowed(const ModelFolder& folder);

// The model as a command needs it. Throws Error that says what kind of model it is, and names the command for it.
const PairModel& pair_model(const ModelFolder& folder);
const LanguageModel& language_model(const ModelFolder& folder);
/// An encoder that classifies texts.
const EncoderModel& labelled_model(const ModelFolder& folder);
/// An encoder that guesses masked words, and does nothing else: training a classifier leaves those layers behind.
const EncoderModel& masked_model(const ModelFolder& folder);
const ImageModel& image_model(const ModelFolder& folder);

}  // namespace attend::cli
