#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "attend/hub/hub.h"
#include "attend/ops/weight_format.h"
#include "attend/text/tokenizer.h"

namespace attend {

/// A model with its tokenizer and its generation settings.
struct OpenedModel {
  std::string path;  ///< the folder or file of the model itself
  std::unique_ptr<Model> model;
  std::shared_ptr<const Tokenizer> tokenizer;  ///< null for an image model
  // As in LoadedModel.
  GenerationRules rules;
  std::map<std::string, GenerationRules> tasks;
  std::string kind;
  std::vector<std::string> unused, notes;
};

struct OpenOptions {
  WeightFormat format = WeightFormat::f32;  ///< format of the matrices; see attend/nn/weight_formats.h
  bool keep_bf16 = true;                    ///< with f32: bf16 matrices of the files stay bf16, with the same results
  bool packs = false;                       ///< pack_matrices() in this thread's precision, to serve many requests
  Device device = kCpu;                     ///< where the model computes
};

/// Opens a model folder for inference: one that attend trained, one in Hugging Face format, or a model file of llama2.c
/// with its tokenizer beside it:
///
///   const OpenedModel opened = open_model("en-de");
///   const auto& model = dynamic_cast<const PairModel&>(*opened.model);
///   translate(model, *opened.tokenizer, lines, search_by(opened.rules));
///
/// Throws a FormatError that names the folder and the problem.
OpenedModel open_model(const std::string& path, const OpenOptions& options = {});

/// open_model() for a description of the model, not for inference: tensors that the model does not use are listed in
/// `unused`, and a tokenizer that is missing or does not match the model is reported in `notes`.
OpenedModel describe_model(const std::string& path);

}  // namespace attend
