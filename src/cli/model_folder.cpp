#include "cli/model_folder.h"

#include <filesystem>
#include <iostream>

#include "attend/base/error.h"
#include "attend/hub/sentence_transformers.h"
#include "cli/command_line.h"

namespace attend::cli {
namespace {

bool has_labels(const EncoderModel& model) { return !model.labels().empty(); }

/// What the model is, and the command that uses it.
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
      "; to classify texts, train it on labelled ones first: attend train encoder "
      "LABELLED.tsv --from " +
      folder.path;
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

/// Where the model itself lies: sentence-transformers once kept it in a folder of its own.
std::string model_place(const std::string& path) {
  const bool is_outside = !std::filesystem::exists(path + "/config.json") && is_sentence_folder(path);
  return is_outside ? read_sentence_folder(path).model : path;
}

/// A tokenizer stands beside a model that is a single file.
std::string tokenizer_place(const std::string& path) {
  if (std::filesystem::is_directory(path)) return path;
  const std::string parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? "." : parent;
}

ModelFolder open_weights(const std::string& path, const WeightOptions& weights, bool allow_unused = false) {
  const WeightFormat format = weights.format();
  const std::string place = model_place(path);
  LoadedModel loaded = load_any_model(place, {.keep_bf16 = weights.keeps_bf16(), .allow_unused = allow_unused});
  set_weight_format(*loaded.model, format);
  return {.path = place,
          .model = std::move(loaded.model),
          .tokenizer = nullptr,
          .rules = std::move(loaded.rules),
          .tasks = std::move(loaded.tasks),
          .kind = std::move(loaded.kind),
          .unused = std::move(loaded.unused),
          .notes = std::move(loaded.notes)};
}

void take_tokenizer(ModelFolder& folder) {
  if (folder.model->kind() == ModelKind::pictures) return;
  const auto tokenizer = load_tokenizer(tokenizer_place(folder.path));
  require<FormatError>(tokenizer->size() <= folder.model->vocab_size(), folder.path, ": the tokenizer has ",
                       tokenizer->size(), " tokens, but the model only ", folder.model->vocab_size(), " words");
  folder.tokenizer = tokenizer;
}

}  // namespace

ModelFolder open_model(const std::string& path, const WeightOptions& weights) {
  ModelFolder folder = open_weights(path, weights);
  take_tokenizer(folder);
  return folder;
}

ModelFolder open_to_describe(const std::string& path) {
  ModelFolder folder = open_weights(path, {}, true);
  try {
    take_tokenizer(folder);
  } catch (const Error& error) {
    folder.notes.push_back(error.what());
  }
  return folder;
}

void choose_task(ModelFolder& folder, const std::string& task) {
  if (task.empty()) return;
  try {
    folder.rules = GenerationRules(rules_for(folder.tasks, task));
  } catch (const Error& error) {
    throw UsageError("--task: " + folder.path + ": " + error.what());
  }
}

void warn_unfollowed(const ModelFolder& folder) {
  std::string keys;
  for (const std::string& key : folder.rules.unfollowed) keys += (keys.empty() ? "" : ", ") + key;
  if (!keys.empty())
    std::cerr << "attend: " << folder.path << ": not followed of its generation config: " << keys << '\n';
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
