#pragma once

#include <string>
#include <vector>

#include "attend/hub/hub.h"
#include "attend/models/model.h"
#include "hub/hub_weights.h"

// Maps the tensors of a file to our parameters: a list of rules, applied forwards to load a model and backwards to
// export one.
namespace attend::hub {

enum class Layout {
  as_is,
  transposed,   ///< matrices are [in, out], ours are [out, in]; vectors are unchanged
  interleaved,  ///< rotary positions pair rows (2i, 2i + 1) of a head, ours pair (i, i + half)
  reshaped,     ///< the same values in the same order, in any shape
  one_row       ///< the same, exported as a matrix with one row
};

/// `{}` in a name stands for the layer number. Rules for parameters that the model does not have are skipped, so that a
/// model without biases ignores the rules for biases.
struct Rule {
  std::string theirs;             ///< without the map's prefix
  std::vector<std::string> ours;  ///< several: their tensor concatenates them along the outputs
  Layout layout = Layout::as_is;
  bool is_bare = false;      ///< the name never has the prefix
  int64_t skipped_rows = 0;  ///< rows at the start of their tensor that ours does not have
  int64_t head_dim = 0;      ///< rows of a head, for `interleaved`
};

struct NameMap {
  /// Optional prefix of names: files of the whole model have it, files of the body alone do not. Always written on
  /// export.
  std::string prefix;
  std::vector<Rule> rules;
  /// Names (without the prefix) of tensors that no model needs; `*` matches any text.
  std::vector<std::string> ignored;
  /// The same for the heads of other tasks, on which nothing else depends.
  std::vector<std::string> other_heads;
  struct Copy {
    std::string name, of;
  };
  /// Tensors to export a second time: the additional full name, and the full name of the original.
  std::vector<Copy> copies;
  /// Names (without the prefix) under which files may repeat a tensor: ignored if the values equal those of a used one,
  /// otherwise an unused weight.
  std::vector<std::string> repeats;

  void add(const std::string& theirs, const std::string& ours, Layout layout = Layout::as_is);
  /// The same for theirs.weight and theirs.bias.
  void add_both(const std::string& theirs, const std::string& ours, Layout layout = Layout::as_is);
  /// Maps one of their layers to several of ours, weights and biases.
  void add_joined(const std::string& theirs, const std::vector<std::string>& ours, Layout layout = Layout::as_is);
};

/// The names of tensors in the files that were neither loaded nor ignored.
struct LeftOver {
  std::vector<std::string> unused;
  std::vector<std::string> other_heads;  ///< see NameMap
};

/// Replaces the model's parameters by the weights: as views of the file if type and layout match, otherwise as copies.
/// Throws FormatError that names a tensor that is missing or has the wrong shape, Error for a parameter without a rule.
LeftOver load_weights(Model& model, const NameMap& map, const HubWeights& weights, const HubOptions& options = {});

/// The model's parameters with their names and in their layout. Throws Error for a parameter without a rule.
std::vector<NamedTensor> weights_of(const Model& model, const NameMap& map);

}  // namespace attend::hub
