#include "cli/model_folder.h"

#include <filesystem>
#include <iostream>

#include "attend/base/error.h"

namespace attend::cli {
namespace {

const char* command_for(Task task) {
  switch (task) {
    case Task::translation:
      return "attend translate";
    case Task::language:
      return "attend generate";
    case Task::classification:
    case Task::pictures:
      return "attend classify";
  }
  return "";
}

template <class Kind>
const Kind& model_as(const ModelFolder& folder) {
  const auto* model = dynamic_cast<const Kind*>(folder.model.get());
  require<Error>(model != nullptr, folder.path, ": a model of architecture ", folder.model->architecture(),
                 " is used by ", command_for(folder.model->task()));
  return *model;
}

/// A tokenizer stands beside a model that is a single file.
std::string tokenizer_place(const std::string& path) {
  if (std::filesystem::is_directory(path)) return path;
  const std::string parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? "." : parent;
}

}  // namespace

ModelFolder open_model(const std::string& path) { return open_model(path, {.dtype = "f32", .quantize = ""}); }

ModelFolder open_model(const std::string& path, const WeightOptions& weights) {
  const WeightFormat format = weights.format();
  LoadedModel loaded = load_any_model(path, {.keep_bf16 = weights.keeps_bf16()});
  const bool reads_pictures = loaded.model->task() == Task::pictures;
  ModelFolder folder{.path = path,
                     .model = std::move(loaded.model),
                     .tokenizer = reads_pictures ? nullptr : load_tokenizer(tokenizer_place(path)),
                     .rules = std::move(loaded.rules),
                     .tasks = std::move(loaded.tasks),
                     .kind = std::move(loaded.kind),
                     .unused = std::move(loaded.unused),
                     .notes = std::move(loaded.notes)};
  set_weight_format(*folder.model, format);
  if (reads_pictures) return folder;
  require<FormatError>(folder.tokenizer->size() <= folder.model->words(), path, ": the tokenizer has ",
                       folder.tokenizer->size(), " tokens, but the model only ", folder.model->words(), " words");
  return folder;
}

void choose_task(ModelFolder& folder, const std::string& task) {
  if (task.empty()) return;
  try {
    folder.rules = GenerationRules(rules_for(folder.tasks, task));
  } catch (const Error& error) {
    throw Error(folder.path + ": " + error.what());
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
const EncoderModel& encoder_model(const ModelFolder& folder) { return model_as<EncoderModel>(folder); }
const ImageModel& image_model(const ModelFolder& folder) { return model_as<ImageModel>(folder); }

}  // namespace attend::cli
