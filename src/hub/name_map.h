#pragma once

#include <string>
#include <vector>

#include "attend/hub/hub.h"
#include "attend/models/model.h"
#include "hub/hub_weights.h"

// Which tensor of a file is which parameter of ours: a list of rules, read forwards to load a model and backwards to
// write one.
namespace attend::hub {

enum class Layout {
  as_is,
  transposed,   ///< matrices are [in, out] where ours are [out, in]; vectors are as they are
  interleaved,  ///< rows of a head come as pairs (2i, 2i + 1) of rotary positions, where ours are (i, i + half)
  reshaped,     ///< as many values in the same order, in whatever shape
  one_row       ///< the same, and written as a matrix of one row
};

/// `{}` in the names stands for the number of a layer. A rule for a parameter that the model has not is passed over: a
/// model without biases leaves out its rules for biases.
struct Rule {
  std::string theirs;             ///< without the map's prefix
  std::vector<std::string> ours;  ///< several: theirs holds them one behind the other, along the outputs
  Layout layout = Layout::as_is;
  bool is_bare = false;      ///< never has the prefix
  int64_t skipped_rows = 0;  ///< that theirs begins with and ours has not
  int64_t head_dim = 0;      ///< rows of a head, for `interleaved`
};

struct NameMap {
  /// That names may have or not: the whole model has it, the body alone has not. Written with it.
  std::string prefix;
  std::vector<Rule> rules;
  /// Names (after the prefix) of what no model needs; `*` stands for anything.
  std::vector<std::string> ignored;
  /// The same of layers on top of the model, for a task that it does not have: nothing else depends on them.
  std::vector<std::string> other_heads;
  struct Copy {
    std::string name, of;
  };
  /// Whole names under which a tensor is written a second time, and that tensor's.
  std::vector<Copy> copies;
  /// Names (after the prefix) under which files may hold a tensor that is used a second time: not needed if the values
  /// are those of such a tensor, else a weight that is not used.
  std::vector<std::string> repeats;

  void add(const std::string& theirs, const std::string& ours, Layout layout = Layout::as_is);
  /// The same for theirs.weight and theirs.bias.
  void add_both(const std::string& theirs, const std::string& ours, Layout layout = Layout::as_is);
  /// Several of ours in one of theirs; weights and biases.
  void add_joined(const std::string& theirs, const std::vector<std::string>& ours, Layout layout = Layout::as_is);
};

/// The names of tensors in the files that were not loaded, and are not known to be needless.
struct LeftOver {
  std::vector<std::string> unused;
  std::vector<std::string> other_heads;  ///< see NameMap
};

/// Puts the weights into the model's parameters, whatever they were: as they lie in the file where they are held as
/// they are there and laid out as ours, else copied. Throws FormatError that names a tensor which is missing or of
/// another shape, Error for a parameter the map does not know.
LeftOver load_weights(Model& model, const NameMap& map, const HubWeights& weights, const HubOptions& options = {});

/// The model's parameters under their names and in their layout. Throws Error for a parameter the map does not know.
std::vector<NamedTensor> weights_of(const Model& model, const NameMap& map);

}  // namespace attend::hub
