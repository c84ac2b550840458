#include "hub/hub_weights.h"

#include <filesystem>

#include "attend/io/files.h"
#include "attend/io/json.h"
#include "hub/foreign_files.h"
#include "io/json_depth.h"
#include "io/printable.h"

namespace attend::hub {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWeights = "/model.safetensors";
constexpr const char* kIndex = "/model.safetensors.index.json";
constexpr int64_t kMostIndexBytes = 64 << 20;

bool is_within(const fs::path& inner, const fs::path& outer) {
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

/// Tensor names by shard, from the index.
std::map<std::string, std::vector<std::string>> shards_of(const std::string& path) {
  const std::string text = read_file(path, kMostIndexBytes);
  require<FormatError>(is_shallow_json(text), path, ": the JSON is nested too deep");
  const auto json = Json::parse_or_null(text);
  const bool fits = json.is_object() && json.contains("weight_map") && json["weight_map"].is_object();
  require<FormatError>(fits, path, ": expected a JSON object with a \"weight_map\"");
  std::map<std::string, std::vector<std::string>> shards;
  for (const auto& [tensor, file] : json["weight_map"].items()) {
    require<FormatError>(file.is_string(), path, ": tensor ", in_quotes(tensor), " must map to the name of a file");
    const std::string name = file.get<std::string>();
    const bool is_plain = !name.empty() && name.find('/') == std::string::npos && name != "." && name != ".." &&
                          name.find('\0') == std::string::npos;
    require<FormatError>(is_plain, path, ": ", in_quotes(name), " is not the name of a file in the folder");
    shards[name].push_back(tensor);
  }
  return shards;
}

[[noreturn]] void refuse_without_safetensors(const std::string& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    const bool is_pickle = name.starts_with("pytorch_model") || name.ends_with(".pt") || name.ends_with(".pth") ||
                           name.ends_with(".ckpt") || name.ends_with(".pkl");
    if (!is_pickle) continue;
    throw FormatError(folder + ": " + name +
                      " is a pickle; reading it can run arbitrary code; if you trust it, convert it with transformers: "
                      "from_pretrained(FOLDER).save_pretrained(FOLDER)");
  }
  if (const std::string text = foreign_folder(folder); !text.empty()) throw FormatError(folder + ": " + text);
  throw FormatError(folder + ": expected model.safetensors or model.safetensors.index.json, found neither");
}

}  // namespace

void check_links(const std::string& folder) {
  std::error_code error;
  const fs::path root = fs::canonical(folder, error);
  require<FormatError>(!error, folder, ": cannot read: ", error.message());
  const fs::path blobs =
      root.parent_path().filename() == "snapshots" ? root.parent_path().parent_path() / "blobs" : fs::path();
  for (const auto& entry : fs::recursive_directory_iterator(root, fs::directory_options::skip_permission_denied)) {
    if (!entry.is_symlink()) continue;
    const fs::path target = fs::canonical(entry.path(), error);
    const std::string shown = folder + "/" + entry.path().lexically_relative(root).string();
    require<FormatError>(!error, shown, ": broken link: ", error.message());
    const bool is_inside = is_within(target, root) || (!blobs.empty() && is_within(target, blobs));
    require<FormatError>(is_inside, shown, ": links that lead out of the folder are not followed");
  }
}

HubWeights HubWeights::open(const std::string& folder) {
  HubWeights result;
  if (fs::exists(folder + kWeights)) {
    result.name_ = folder + kWeights;
    result.add(result.name_);
    return result;
  }
  if (!fs::exists(folder + kIndex)) refuse_without_safetensors(folder);
  result.name_ = folder + kIndex;
  for (const auto& [file, tensors] : shards_of(result.name_)) {
    const std::string path = folder + "/" + file;
    require<FormatError>(fs::exists(path), result.name_, ": the shard ", in_quotes(file), " is missing");
    result.add(path);
    for (const std::string& tensor : tensors) {
      require<FormatError>(result.files_.back().contains(tensor), result.name_, ": tensor ", in_quotes(tensor),
                           " is not in ", in_quotes(file), " as the index says");
    }
  }
  return result;
}

HubWeights HubWeights::from_tensors(std::map<std::string, Tensor> tensors, std::string name) {
  HubWeights result;
  result.name_ = std::move(name);
  for (const auto& [key, tensor] : tensors) result.places_[key] = {0, tensor.shape()};
  result.given_ = std::move(tensors);
  return result;
}

void HubWeights::add(const std::string& path) {
  try {
    files_.push_back(SafetensorsFile::open(path));
  } catch (const FormatError&) {  // perhaps a Git LFS pointer or a web page
    if (const std::string text = foreign_file(path); !text.empty()) throw FormatError(path + ": " + text);
    throw;
  }
  for (const TensorInfo& info : files_.back().tensors()) {
    const bool is_new = places_.emplace(info.name, Place{files_.size() - 1, info.shape}).second;
    require<FormatError>(is_new, path, ": tensor ", in_quotes(info.name), " is also in another shard");
  }
}

const HubWeights::Place& HubWeights::place(const std::string& tensor) const {
  const auto found = places_.find(tensor);
  require<FormatError>(found != places_.end(), name_, ": tensor ", in_quotes(tensor), " is missing");
  return found->second;
}

bool HubWeights::contains(const std::string& tensor) const { return places_.contains(tensor); }

const Shape& HubWeights::shape(const std::string& tensor) const { return place(tensor).shape; }

Tensor HubWeights::tensor(const std::string& tensor) const {
  const Place& where = place(tensor);
  return files_.empty() ? given_.at(tensor) : files_[where.file].tensor(tensor);
}

std::vector<std::string> HubWeights::names() const {
  std::vector<std::string> result;
  for (const auto& [name, place] : places_) result.push_back(name);
  return result;
}

double HubWeights::values() const {
  double total = 0;
  for (const auto& [name, place] : places_) total += static_cast<double>(place.shape.numel());
  return total;
}

}  // namespace attend::hub
