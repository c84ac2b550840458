#pragma once

#include <map>
#include <string>
#include <vector>

#include "attend/inspect/experiment.h"
#include "attend/inspect/run.h"

namespace attend {

/// The sides of an attention module's queries and keys and its place in the model, derived from its path.
struct AttentionPlace {
  std::string stack;
  int64_t layer = 0, query_side = 0, key_side = 0;
};
AttentionPlace place_of(const std::string& path, bool is_pair);

/// Records what a forward pass computes, and applies the requested ablations.
class Watcher final : public Observer {
 public:
  Watcher(const RunOptions& options, bool is_pair, std::vector<ActivationChange> changes = {})
      : options_(options), is_pair_(is_pair), changes_(std::move(changes)) {}

  void attended(const AttentionTrace& trace) override;
  void computed(std::string_view what, const Tensor& value) override;
  Ablation ablation() override;
  Tensor replacement(std::string_view what, const Tensor& value) override;

  /// All attention modules in the order of the pass. Throws ShapeError if an ablated head does not exist.
  std::vector<RunAttention> take_attention();
  std::vector<NamedTensor> take_values() { return std::move(values_); }

 private:
  struct Seen {
    std::string path;
    std::vector<AttentionTrace> traces;  // a recurrent decoder has one per step
    std::vector<Tensor> queries;         // W s of additive attention, [1, states, hidden]
    Tensor keys, additive;
  };
  Seen& seen(const std::string& path);
  static RunAttention joined(Seen& seen);

  const RunOptions& options_;
  bool is_pair_;
  std::vector<ActivationChange> changes_;
  std::vector<Seen> seen_;
  std::map<std::string, size_t> index_;
  std::vector<NamedTensor> values_;
  std::map<std::string, size_t> value_index_;
};

}  // namespace attend
