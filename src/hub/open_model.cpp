#include "attend/hub/open_model.h"

#include <filesystem>

#include "attend/base/error.h"
#include "attend/hub/sentence_transformers.h"

namespace attend {
namespace {

/// Where the model itself lies: older sentence-transformers folders keep it in a sub-folder.
std::string model_place(const std::string& path) {
  const bool is_outside = !std::filesystem::exists(path + "/config.json") && is_sentence_folder(path);
  return is_outside ? read_sentence_folder(path).model : path;
}

/// The tokenizer of a model that is a single file lies beside it.
std::string tokenizer_place(const std::string& path) {
  if (std::filesystem::is_directory(path)) return path;
  const std::string parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? "." : parent;
}

OpenedModel open_weights(const std::string& path, const HubOptions& options) {
  const std::string place = model_place(path);
  LoadedModel loaded = load_any_model(place, options);
  return {.path = place,
          .model = std::move(loaded.model),
          .tokenizer = nullptr,
          .rules = std::move(loaded.rules),
          .tasks = std::move(loaded.tasks),
          .kind = std::move(loaded.kind),
          .unused = std::move(loaded.unused),
          .notes = std::move(loaded.notes)};
}

void take_tokenizer(OpenedModel& opened) {
  if (opened.model->kind() == ModelKind::pictures) return;
  const auto tokenizer = load_tokenizer(tokenizer_place(opened.path));
  require<FormatError>(tokenizer->size() <= opened.model->vocab_size(), opened.path, ": the tokenizer has ",
                       tokenizer->size(), " tokens, but the model's vocabulary has ", opened.model->vocab_size());
  opened.tokenizer = tokenizer;
}

}  // namespace

OpenedModel open_model(const std::string& path, const OpenOptions& options) {
  OpenedModel opened = open_weights(path, {.keep_bf16 = options.keep_bf16});
  opened.model->to(options.device);
  set_weight_format(*opened.model, options.format);
  if (options.packs) pack_matrices(*opened.model);
  take_tokenizer(opened);
  return opened;
}

OpenedModel describe_model(const std::string& path) {
  OpenedModel opened = open_weights(path, {.keep_bf16 = true, .allow_unused = true});
  try {
    take_tokenizer(opened);
  } catch (const Error& error) {
    opened.notes.push_back(error.what());
  }
  return opened;
}

}  // namespace attend
