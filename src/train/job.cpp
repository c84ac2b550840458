#include "attend/train/job.h"

#include <filesystem>

#include "attend/base/error.h"
#include "attend/hub/convert.h"
#include "attend/hub/hub.h"
#include "attend/io/files.h"
#include "attend/io/json.h"
#include "attend/models/registry.h"
#include "attend/models/setting_error.h"
#include "attend/tensor/creation.h"
#include "io/regular_file.h"
#include "train/check_settings.h"
#include "train/checkpoint.h"
#include "train/folders.h"
#include "train/local_copy.h"
#include "train/updater.h"

namespace attend {
namespace {

namespace fs = std::filesystem;
constexpr const char* kOptionsFile = "/training.json";
constexpr const char* kCheckpointFile = "/checkpoint.safetensors";
constexpr double kFineTuningRate = 0.04;  // lr · width: 5e-5 at BERT's width of 768, where 5e-4 undoes pretraining

std::string without_slash(std::string folder) {
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  return folder;
}

/// The path with links resolved: training replaces the folder, not a link to it.
std::string folder_to_make(const std::string& given) {
  std::error_code error;
  const std::string folder = without_slash(given);
  require<Error>(!fs::equivalent(folder, ".", error), given, ": is the current folder; expected another one");
  if (!fs::is_symlink(folder, error)) return folder;
  const std::string real = without_slash(fs::weakly_canonical(folder, error).string());
  require<Error>(!error && !real.empty(), given, ": cannot follow this link: ", error.message());
  return real;
}

/// The config that the job's settings change: that of the model to start from, or without one a preset.
std::string base_config(const TrainingJob& job, const LoadedModel& from) {
  return from.model ? from.model->config() : preset_config(job.architecture, job.preset);
}

/// The config of a fresh model for this data.
std::string config_for(const TrainingJob& job, const std::string& base, const Dataset& data) {
  std::map<std::string, std::string> settings = job.model;
  // The model to start from may have more rows than its tokenizer has tokens; they are kept.
  if (job.from.empty()) settings["vocab_size"] = std::to_string(data.tokenizer->size());
  if (job.architecture == "encoder") {
    settings["labels"] = Json(data.labels).dump();
    settings["scores"] = "shares";  // even if the model to start from has other scores
  }
  return with_settings(base, settings);
}

/// Copies the weights of the same name. Others, such as a new classifier, keep their random initialisation.
void take_weights(const Model& model, const Model& from) {
  std::map<std::string, Tensor> known;
  for (const auto& [name, tensor] : from.parameters()) known[name] = tensor;
  const auto labels = [](const Model& m) {
    const auto* encoder = dynamic_cast<const EncoderModel*>(&m);
    return encoder ? encoder->labels() : std::vector<std::string>{};
  };
  const bool same_labels = labels(model) == labels(from);
  int64_t taken = 0;
  for (const auto& [name, tensor] : model.parameters()) {
    const auto found = known.find(name);
    if (found == known.end() || (name.starts_with("classifier.") && !same_labels)) continue;
    require<ShapeError>(found->second.shape() == tensor.shape(), name, " is ", found->second.shape(),
                        " in the model to start from, but ", tensor.shape(), " in the new one: sizes cannot change");
    copy_values(found->second.detach(), tensor.detach());
    ++taken;
  }
  require<Error>(taken > 0, "the model to start from has no weights in common with the new one");
}

/// The context of the new model. Throws SettingError for settings that do not fit together.
int64_t context_of(const TrainingJob& job, const std::string& base) {
  std::map<std::string, std::string> settings = job.model;
  settings["vocab_size"] = "8";
  return checked_context(with_settings(base, settings));
}

bool is_within(const std::string& file, const std::string& folder) {
  std::error_code error;
  const fs::path inner = fs::weakly_canonical(file, error), outer = fs::weakly_canonical(folder, error);
  if (inner.empty() || outer.empty()) return false;
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

/// The default learning rate for fine-tuning a Hugging Face model.
double gentle_rate(const Model& model) { return kFineTuningRate / static_cast<double>(model.dim()); }

/// The model to start from, with the generation rules of the job's task. Empty if the job has none.
LoadedModel start_of(const TrainingJob& job) {
  if (job.from.empty()) return {};
  LoadedModel from = load_any_model(job.from);
  require<Error>(from.model->architecture() == job.architecture, job.from, ": is a model of architecture ",
                 from.model->architecture(), ", expected ", job.architecture);
  try {
    check_finite_weights(*from.model);
  } catch (const FormatError& error) {
    throw FormatError(job.from + ": " + error.what());
  }
  try {
    if (!job.task.empty()) from.rules = GenerationRules(rules_for(from.tasks, job.task));
  } catch (const Error& error) {
    throw Error(job.from + ": " + error.what());
  }
  return from;
}

TrainingOptions saved_options(const std::string& folder) {
  const std::string path = folder + kOptionsFile;
  std::error_code error_code;
  require<Error>(fs::exists(fs::symlink_status(path, error_code)), folder,
                 ": has no training.json: attend train did not create this model");
  const std::string text = read_regular(path, 1 << 20, Links::refuse);
  try {
    return training_from(text);
  } catch (const FormatError& error) {
    throw FormatError(path + ": " + error.what());
  }
}

/// Without a checkpoint, training would start again and overwrite the best model and the log.
void require_checkpoint(const std::string& folder) {
  std::error_code error;
  require<Error>(fs::exists(fs::symlink_status(folder + kCheckpointFile, error)), folder,
                 ": there is no checkpoint.safetensors to resume from; start over with -o and --overwrite, or train a "
                 "new model from these weights with --from ",
                 folder);
}

}  // namespace

TrainingFolder TrainingFolder::create(const TrainingJob& job, const std::string& given, bool overwrite,
                                      const Progress& progress) {
  const std::string folder = folder_to_make(given);
  require<Error>(!fs::exists(folder) || fs::is_directory(folder), folder, ": is a file; expected a folder");
  require<Error>(overwrite || !fs::exists(folder) || fs::is_empty(folder), folder,
                 " already exists; use --resume or --overwrite");
  require<Error>(!fs::exists(folder) || fs::is_empty(folder) || fs::exists(folder + kOptionsFile), folder,
                 ": was not created by attend train; nothing was overwritten");
  for (const Corpus* corpus : {&job.data.corpus, job.data.validation ? &*job.data.validation : &job.data.corpus}) {
    for (const auto* files : {&corpus->files, &corpus->targets}) {
      for (const std::string& file : *files) {
        require<Error>(file == "-" || !is_within(file, folder), file, ": is in ", folder,
                       ", which would be overwritten");
      }
    }
  }
  lock_for_training(folder);  // report another training in this folder before reading the corpus
  DatasetOptions data = job.data;
  data.seed = static_cast<uint64_t>(job.training.seed);
  const LoadedModel from = start_of(job);
  const std::string base = base_config(job, from);
  data.max_length = context_of(job, base);
  if (from.model) data.tokenizer = job.from;
  data.prefix = from.rules.prefix;
  data.is_framed = from.rules.as_transformers;

  NewFolder fresh(folder);
  // Saved before the tokenizer, which needs the rules' decoder start token.
  if (from.rules.as_transformers) save_generation_rules(from.rules, fresh.path());
  TrainingFolder result;
  result.folder_ = folder;
  result.options_ = job.training;
  result.data_ = prepare_dataset(data, fresh.path(), progress);
  Rng rng{static_cast<uint64_t>(job.training.seed) ^ 0x696e6974, 0};
  result.model_ = create_model(config_for(job, base, result.data_), rng);
  if (from.model) take_weights(*result.model_, *from.model);
  if (from.rules.as_transformers && result.options_.lr == 0) result.options_.lr = gentle_rate(*result.model_);
  result.steps();  // refuses what cannot be trained
  write_file(fresh.path() + kOptionsFile, training_text(result.options_) + "\n");
  TrainingOptions alone = result.options_;  // this process writes the first checkpoint whole
  alone.shard = ShardedState::none;
  write_checkpoint(fresh.path() + kCheckpointFile, *result.model_, Updater(result.model_->parameters(), alone), {});
  save_model(*result.model_, fresh.path());
  result.lock_ = std::make_shared<FolderLock>(fresh.keep(overwrite));
  remove_leftovers(folder);
  result.data_ = open_dataset(folder);  // open again, so that errors name the files by their final paths
  return result;
}

TrainingFolder TrainingFolder::open(const std::string& given, const std::map<std::string, std::string>& settings) {
  TrainingFolder result;
  result.folder_ = without_slash(given);
  result.lock_ = std::make_shared<FolderLock>(lock_for_training(result.folder_));
  result.model_ = load_model(result.folder_);
  const TrainingOptions before = saved_options(result.folder_);
  require_checkpoint(result.folder_);
  result.options_ = with_training(before, settings);
  require<Error>((before.optimizer == OptimizerKind::sgd) == (result.options_.optimizer == OptimizerKind::sgd),
                 "--resume cannot change the optimizer between adam and sgd: their states differ");
  result.data_ = open_dataset(result.folder_);
  const int64_t steps = result.steps();  // refuses what cannot be trained
  const int64_t made = result.saved_step();
  require<SettingError>(!settings.contains("steps") || steps >= made, "'steps' is ", steps,
                        ", but the model has already been trained for ", made);
  remove_leftovers(result.folder_);
  result.has_new_options_ = !settings.empty() && steps > made;
  return result;
}

TrainingFolder TrainingFolder::read(const std::string& folder) {
  TrainingFolder result;
  result.folder_ = without_slash(folder);
  result.model_ = load_model(result.folder_);
  result.options_ = saved_options(result.folder_);
  result.data_ = open_dataset(result.folder_);
  return result;
}

void TrainingFolder::share() {
  distributed::Group& group = distributed::world();
  if (group.size() == 1) return;
  distributed::broadcast(group, training_text(options_));
  const LocalCopy copy(group, folder_);
  require<Error>(!copy.is_copied() || options_.shard == ShardedState::none, folder_,
                 ": --shard optimizer needs a folder that all hosts see");
}

TrainingFolder TrainingFolder::join(const std::string& folder) {
  distributed::Group& group = distributed::world();
  const TrainingOptions options = training_from(distributed::broadcast(group, ""));
  TrainingFolder result;
  result.copy_ = std::make_shared<LocalCopy>(group, without_slash(folder));
  result.folder_ = result.copy_->path();
  result.model_ = load_model(result.folder_);
  result.options_ = options;
  result.data_ = open_dataset(result.folder_);
  return result;
}

int64_t TrainingFolder::steps() const {
  const auto objective = make_objective(*model_, data_, options_);
  return Trainer(*model_, *objective, options_, folder_).steps();
}

int64_t TrainingFolder::saved_step() const { return checkpoint_step(folder_ + kCheckpointFile); }

TrainingOutcome TrainingFolder::run(const TrainingObserver& observer, const std::atomic<bool>* stop) {
  const auto objective = make_objective(*model_, data_, options_);
  TrainingObserver told = observer;
  told.started = [&] {  // save new options once the checkpoint has been read with them
    if (has_new_options_) write_file(folder_ + kOptionsFile, training_text(options_) + "\n");
    if (observer.started) observer.started();
  };
  return Trainer(*model_, *objective, options_, folder_).run(told, stop);
}

}  // namespace attend
