#pragma once

#include <map>
#include <string>
#include <vector>

#include "attend/io/safetensors.h"

namespace attend::hub {

/// Throws FormatError if anything in the folder is a link to a place outside of it. The layout of the hub's own cache,
/// whose snapshots/REVISION holds links to ../../blobs, is as good as one folder.
void check_links(const std::string& folder);

/// All tensors of a model: those of model.safetensors, or of the shards that model.safetensors.index.json lists. They
/// are mapped, and read when they are used.
class HubWeights {
 public:
  /// Throws FormatError for missing, damaged or contradicting files, and for files that only Python's pickle reads.
  static HubWeights open(const std::string& folder);
  /// The same from tensors in memory; `name` stands for the file in errors.
  static HubWeights from_tensors(std::map<std::string, Tensor> tensors, std::string name);

  const std::string& name() const { return name_; }  ///< of the file, or of the index
  bool contains(const std::string& tensor) const;
  /// The shape of a tensor; throws FormatError that names it and the file if there is none.
  const Shape& shape(const std::string& tensor) const;
  /// As it lies in the file: see SafetensorsFile::tensor.
  Tensor tensor(const std::string& tensor) const;
  /// All names, sorted.
  std::vector<std::string> names() const;
  /// The number of values of all tensors: what no model described by them can exceed.
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
