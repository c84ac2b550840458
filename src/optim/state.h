#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "attend/nn/parameters.h"
#include "attend/optim/clip.h"
#include "attend/tensor/creation.h"
#include "backend/graph.h"
#include "backend/kernels.h"

// Helpers for the parameters and saved states of optimisers.
namespace attend {

/// Reads the entries of a saved state and remembers which of them were read.
class StateReader {
 public:
  StateReader(const char* optimizer, const std::map<std::string, Tensor>& state)
      : optimizer_(optimizer), left_(state) {}

  /// A copy of the entry `parameter_name.part` with the dtype and device of `parameter`; empty if there is no entry.
  /// Throws ShapeError if the shapes differ.
  Tensor take(const std::string& parameter_name, const char* part, const Tensor& parameter) {
    const auto found = left_.find(parameter_name + "." + part);
    if (found == left_.end()) return {};
    require<ShapeError>(found->second.shape() == parameter.shape(), optimizer_, ": state ", found->first, " has shape ",
                        found->second.shape(), " but the parameter has ", parameter.shape());
    Tensor result = empty_like(parameter);
    copy_values(found->second, result);
    left_.erase(found);
    return result;
  }
  /// The number in the entry `parameter_name.part`; 0 if there is no entry.
  int64_t take_count(const std::string& parameter_name, const char* part) {
    const auto found = left_.find(parameter_name + "." + part);
    if (found == left_.end()) return 0;
    const auto count = static_cast<int64_t>(found->second.item());
    left_.erase(found);
    return count;
  }
  /// Throws ShapeError if an entry has not been read.
  void require_all_taken() const {
    require<ShapeError>(left_.empty(), optimizer_, ": the model has no parameter for state ",
                        left_.empty() ? "" : left_.begin()->first);
  }

 private:
  const char* optimizer_;
  std::map<std::string, Tensor> left_;
};

/// The parameters without duplicates. A tensor that two fields share (tied embeddings) keeps its first name.
inline std::vector<NamedTensor> without_repeats(std::vector<NamedTensor> parameters) {
  std::set<const void*> seen;
  std::erase_if(parameters, [&](const NamedTensor& entry) {
    return entry.second.variable() && !seen.insert(entry.second.variable().get()).second;
  });
  return parameters;
}

/// The limit as the kernels take it. The views are valid as long as `limit` lives.
inline GradientClip clip_of(const GradNormLimit& limit, Device device) {
  if (!limit.squared_norm) return {};
  require<DeviceError>(limit.squared_norm.device() == device, "step: the norm is on ", limit.squared_norm.device(),
                       " but the parameters are on ", device);
  return {.squares = rows(limit.squared_norm), .max_norm = limit.max_norm};
}

/// `count` of the rates that an optimizer's step reads, from number `first` on; empty if there are no rates.
inline ConstRows rates_at(const Tensor& rates, size_t first, int64_t count) {
  if (!rates) return {};
  require<ShapeError>(
      rates.dtype() == DType::f64 && rates.is_contiguous() && static_cast<int64_t>(first) + count <= rates.numel(),
      "step: expected the numbers of rates() as f64, got ", rates.dtype(), " ", rates.shape());
  return {static_cast<const double*>(rates.raw()) + first, DType::f64, 1, count, count};
}

/// Throws DeviceError while a graph is captured: the state of a parameter must not be created in the graph's memory.
inline void require_not_captured(const Tensor& parameter, const char* optimizer, const std::string& name) {
  require<DeviceError>(!is_capturing(parameter.device()), optimizer, ": the first update of ", name,
                       " cannot be captured");
}

/// Throws ShapeError if the parameter is empty, or in a mapped file and therefore read-only.
inline void require_writable(const Tensor& parameter, const char* optimizer, const std::string& name) {
  require<ShapeError>(parameter && !parameter.storage()->is_read_only(), optimizer, ": parameter ", name,
                      " is in a mapped file and read-only; clone() it, or use load_parameters()");
}

/// Throws ShapeError unless the value is at least 0. NaN is rejected.
inline void require_not_negative(double value, const char* optimizer, const char* name) {
  require<ShapeError>(value >= 0, optimizer, ": ", name, " must not be negative, got ", value);
}

}  // namespace attend
