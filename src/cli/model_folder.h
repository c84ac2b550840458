#pragma once

#include <memory>
#include <string>

#include "attend/models/model.h"
#include "attend/text/tokenizer.h"

namespace attend::cli {

/// A trained model with its tokenizer.
struct ModelFolder {
  std::string path;
  std::unique_ptr<Model> model;
  std::shared_ptr<const Tokenizer> tokenizer;
};
/// Throws FormatError that names the folder and what is wrong with it.
ModelFolder open_model(const std::string& path);

// The model as a command needs it. Throws Error that names the command for this kind of model.
const PairModel& pair_model(const ModelFolder& folder);
const LanguageModel& language_model(const ModelFolder& folder);
const EncoderModel& encoder_model(const ModelFolder& folder);

}  // namespace attend::cli
