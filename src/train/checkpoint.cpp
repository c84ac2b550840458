#include "train/checkpoint.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "attend/autograd/autograd.h"
#include "attend/io/safetensors.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"
#include "distributed/group.h"
#include "io/mapped_file.h"

namespace attend {
namespace {

namespace fs = std::filesystem;
const std::string kModel = "model.", kUpdater = "optimizer.";
constexpr int64_t kMostShards = 65536;

/// The value as a hexadecimal float, which is exact.
std::string exact(double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%a", value);
  return text;
}

double number(const Metadata& metadata, const std::string& name) {
  const auto found = metadata.find(name);
  require<FormatError>(found != metadata.end(), "the metadata has no '", name, "'");
  return std::strtod(found->second.c_str(), nullptr);
}

int64_t count(const Metadata& metadata, const std::string& name) {
  const double value = number(metadata, name);
  require<FormatError>(value >= -1 && value < 0x1p53, "'", name, "' is not a valid count");
  return static_cast<int64_t>(value);
}

/// Opens a file of this training run. Links are refused.
SafetensorsFile open_own(const std::string& path) {
  MappedFile file = map_file(path, Links::refuse);
  return SafetensorsFile::parse(file.bytes, path, std::move(file.owner));
}

std::vector<NamedTensor> detached(const Model& model, const std::string& prefix) {
  std::vector<NamedTensor> result;
  for (const auto& [name, tensor] : model.parameters()) result.emplace_back(prefix + name, tensor.detach());
  return result;
}

}  // namespace

namespace {

/// PATH.12345.0-of-4: the file of one process's part of the optimizer's state.
std::string shard_path(const std::string& path, int64_t step, int64_t rank, int64_t count) {
  return path + "." + std::to_string(step) + "." + std::to_string(rank) + "-of-" + std::to_string(count);
}

void write_shard(const std::string& path, const Updater& updater, int64_t step) {
  distributed::Group& group = distributed::world();
  std::vector<NamedTensor> tensors;
  for (const auto& [name, tensor] : updater.state()) tensors.emplace_back(kUpdater + name, tensor);
  write_safetensors(shard_path(path, step, group.rank(), group.size()), tensors);
  group.barrier();  // all parts are on the disk before the checkpoint that needs them
}

/// Removes the parts of other checkpoints than that of `step` in `count` parts.
void remove_old_shards(const std::string& path, int64_t step, int64_t count) {
  const fs::path file(path);
  const std::string kept = count > 1 ? file.filename().string() + "." + std::to_string(step) + "." : "";
  std::error_code error;
  std::vector<fs::path> old;
  for (const auto& entry : fs::directory_iterator(file.parent_path(), error)) {
    const std::string name = entry.path().filename().string();
    const bool is_shard = name.starts_with(file.filename().string() + ".") && name.find("-of-") != std::string::npos;
    const bool is_kept = !kept.empty() && name.starts_with(kept) && name.ends_with("-of-" + std::to_string(count));
    if (is_shard && !is_kept) old.push_back(entry.path());
  }
  for (const fs::path& left : old) fs::remove(left, error);
}

/// The state of a parameter's rows from the parts of a checkpoint: `key` in each part, put together.
Tensor rows_from(const std::vector<SafetensorsFile>& parts, const std::string& key, const StateRows& wanted) {
  std::vector<Tensor> pieces;
  for (int64_t i = 0; i < std::ssize(parts); ++i) {
    const auto [begin, end] = owned_rows(wanted.rows, i, std::ssize(parts));
    const int64_t from = std::max(begin, wanted.begin), to = std::min(end, wanted.end);
    if (from >= to) continue;
    if (!parts[static_cast<size_t>(i)].contains(key)) return {};
    const Tensor tensor = parts[static_cast<size_t>(i)].tensor(key);
    require<FormatError>(tensor.rank() >= 1 && tensor.dim(0) == end - begin, "'", key, "' has the shape ",
                         tensor.shape(), ", expected ", end - begin, " rows");
    pieces.push_back(slice(tensor, 0, from - begin, to - begin));
  }
  return pieces.empty() ? Tensor{} : concat(pieces, 0);
}

/// The updater's state from a checkpoint in one or several parts.
std::map<std::string, Tensor> state_of(const Updater& updater, const std::vector<SafetensorsFile>& parts) {
  const NoGrad no_grad;
  std::map<std::string, Tensor> state;
  for (const StateRows& wanted : updater.rows()) {
    if (wanted.begin == wanted.end) continue;
    for (const char* part : {".m", ".v", ".momentum"}) {
      if (const Tensor rows = rows_from(parts, kUpdater + wanted.name + part, wanted)) state[wanted.name + part] = rows;
    }
    const std::string count = wanted.name + ".step";
    for (const SafetensorsFile& file : parts) {
      if (file.contains(kUpdater + count)) state[count] = file.tensor(kUpdater + count);
    }
  }
  return state;
}

}  // namespace

void write_checkpoint(const std::string& path, const Model& model, const Updater& updater, const TrainingState& state) {
  const int64_t shards = updater.is_sharded() ? distributed::world().size() : 1;
  if (updater.is_sharded()) write_shard(path, updater, state.step);
  if (distributed::world().rank() > 0) return;
  std::vector<NamedTensor> tensors = detached(model, kModel);
  if (!updater.is_sharded()) {
    for (const auto& [name, tensor] : updater.state()) tensors.emplace_back(kUpdater + name, tensor);
  }
  write_safetensors(path, tensors,
                    {{"shards", std::to_string(shards)},
                     {"step", std::to_string(state.step)},
                     {"random", std::to_string(state.random)},
                     {"best", exact(state.best)},
                     {"best_step", std::to_string(state.best_step)},
                     {"stale", std::to_string(state.stale)},
                     {"seconds", exact(state.seconds)},
                     {"tokens", exact(state.tokens)},
                     {"window_loss", exact(state.window.weighted_loss)},
                     {"window_tokens", exact(state.window.tokens)},
                     {"window_counted", exact(state.window.counted)},
                     {"window_seconds", exact(state.window.seconds)}});
  remove_old_shards(path, state.step, shards);
}

std::optional<TrainingState> read_checkpoint(const std::string& path, const Model& model, Updater& updater) {
  std::error_code error_code;
  if (!fs::exists(fs::symlink_status(path, error_code))) return std::nullopt;
  try {
    const SafetensorsFile file = open_own(path);
    const Metadata& about = file.metadata();
    const int64_t shards = about.contains("shards") ? count(about, "shards") : 1;
    require<FormatError>(shards >= 1 && shards <= kMostShards, "'shards' is not a valid count");
    std::map<std::string, Tensor> parameters, moments;
    for (const TensorInfo& info : file.tensors()) {
      if (info.name.starts_with(kModel)) parameters[info.name.substr(kModel.size())] = file.tensor(info.name);
      if (info.name.starts_with(kUpdater)) moments[info.name.substr(kUpdater.size())] = file.tensor(info.name);
    }
    load_values(model.parameters(), parameters);
    std::vector<SafetensorsFile> parts;
    for (int64_t i = 0; i < shards && shards > 1; ++i) {
      parts.push_back(open_own(shard_path(path, count(about, "step"), i, shards)));
    }
    if (shards == 1) parts.push_back(file);
    updater.load_state(shards > 1 || updater.is_sharded() ? state_of(updater, parts) : moments);
    return TrainingState{
        .step = count(about, "step"),
        .random = static_cast<uint64_t>(count(about, "random")),
        .best = number(about, "best"),
        .best_step = count(about, "best_step"),
        .stale = count(about, "stale"),
        .seconds = number(about, "seconds"),
        .tokens = number(about, "tokens"),
        .window = {.weighted_loss = number(about, "window_loss"),
                   .tokens = number(about, "window_tokens"),
                   .counted = number(about, about.contains("window_counted") ? "window_counted" : "window_tokens"),
                   .seconds = number(about, "window_seconds")}};
  } catch (const Error& error) {
    const std::string what = error.what();
    throw FormatError(what.starts_with(path) ? what : path + ": " + what);
  }
}

int64_t checkpoint_step(const std::string& path) { return count(open_own(path).metadata(), "step"); }

void Snapshots::add(const Model& model, int64_t step) {
  fs::create_directories(folder_);
  char name[32];
  std::snprintf(name, sizeof name, "/step-%09lld", static_cast<long long>(step));
  write_safetensors(folder_ + name + ".safetensors", detached(model, ""));
  std::vector<std::string> all = files();
  for (size_t i = 0; i + static_cast<size_t>(keep_) < all.size(); ++i) fs::remove(all[i]);
}

void Snapshots::forget_after(int64_t step) {
  for (const std::string& file : files()) {
    if (std::strtoll(fs::path(file).stem().c_str() + 5, nullptr, 10) > step) fs::remove(file);
  }
}

int64_t Snapshots::count() const { return std::min(keep_, static_cast<int64_t>(files().size())); }

void Snapshots::average_into(const Model& model) const {
  const std::vector<std::string> known = files();
  std::vector<SafetensorsFile> all;  // the last few: an earlier run with a larger `average` may have kept more
  for (auto i = std::ssize(known) - count(); i < std::ssize(known); ++i) {
    all.push_back(open_own(known[static_cast<size_t>(i)]));
  }
  std::map<std::string, Tensor> means;
  for (const auto& [name, tensor] : model.parameters()) {
    std::vector<double> sum(static_cast<size_t>(tensor.numel()), 0.0);
    for (const SafetensorsFile& file : all) {
      const auto values = file.tensor(name).to_vector<double>();
      require<FormatError>(values.size() == sum.size(), folder_, ": '", name, "' has ", values.size(),
                           " values, expected ", sum.size());
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
    }
    for (double& value : sum) value /= static_cast<double>(all.size());
    means[name] = attend::tensor<double>(sum, tensor.shape());
  }
  load_values(model.parameters(), means);
}

std::vector<std::string> Snapshots::files() const {
  std::vector<std::string> result;
  std::error_code error;
  const auto kind = fs::symlink_status(folder_, error);
  if (!fs::exists(kind)) return result;
  require<FormatError>(fs::is_directory(kind), folder_, ": expected a folder, got a file or a link");
  for (const auto& entry : fs::directory_iterator(folder_)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("step-") && name.ends_with(".safetensors")) result.push_back(entry.path().string());
  }
  std::ranges::sort(result);
  return result;
}

}  // namespace attend
