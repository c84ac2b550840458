#include "train/checkpoint.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "attend/autograd/autograd.h"
#include "attend/io/safetensors.h"
#include "attend/tensor/creation.h"
#include "io/mapped_file.h"

namespace attend {
namespace {

namespace fs = std::filesystem;
const std::string kModel = "model.", kUpdater = "optimizer.";

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

void write_checkpoint(const std::string& path, const Model& model, const Updater& updater, const TrainingState& state) {
  std::vector<NamedTensor> tensors = detached(model, kModel);
  for (const auto& [name, tensor] : updater.state()) tensors.emplace_back(kUpdater + name, tensor);
  write_safetensors(path, tensors,
                    {{"step", std::to_string(state.step)},
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
}

std::optional<TrainingState> read_checkpoint(const std::string& path, const Model& model, Updater& updater) {
  std::error_code error_code;
  if (!fs::exists(fs::symlink_status(path, error_code))) return std::nullopt;
  try {
    const SafetensorsFile file = open_own(path);
    std::map<std::string, Tensor> parameters, moments;
    for (const TensorInfo& info : file.tensors()) {
      if (info.name.starts_with(kModel)) parameters[info.name.substr(kModel.size())] = file.tensor(info.name);
      if (info.name.starts_with(kUpdater)) moments[info.name.substr(kUpdater.size())] = file.tensor(info.name);
    }
    load_values(model.parameters(), parameters);
    updater.load_state(moments);
    const Metadata& about = file.metadata();
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
