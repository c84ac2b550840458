#pragma once

#include <map>
#include <string>
#include <vector>

#include "attend/io/safetensors.h"

namespace attend::hub {

/// Throws FormatError if a link in the folder leads out of it. In Hugging Face's own cache, links from
/// snapshots/REVISION to ../../blobs are allowed.
void check_links(const std::string& folder);

/// All tensors of a model: from model.safetensors, or from the shards listed in model.safetensors.index.json. The files
/// are mapped, and tensors are read when used.
class HubWeights {
 public:
  /// Throws FormatError for missing, damaged or contradictory files, and for pickles.
  static HubWeights open(const std::string& folder);
  /// The same from tensors in memory; errors show `name` as the file.
  static HubWeights from_tensors(std::map<std::string, Tensor> tensors, std::string name);

  const std::string& name() const { return name_; }  ///< path of the file or of the index
  bool contains(const std::string& tensor) const;
  /// The shape of a tensor; throws FormatError that names the tensor and the file if it is missing.
  const Shape& shape(const std::string& tensor) const;
  /// A view of the file: see SafetensorsFile::tensor.
  Tensor tensor(const std::string& tensor) const;
  /// All names, sorted.
  std::vector<std::string> names() const;
  /// The number of values in all tensors, an upper bound for the size of the model.
  double values() const;

 private:
  struct Place {
    size_t file = 0;
    Shape shape;
  };
  const Place& place(const std::string& tensor) const;
  void add(const std::string& path);

  std::string name_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, Place> places_;
  std::map<std::string, Tensor> given_;
};

}  // namespace attend::hub
