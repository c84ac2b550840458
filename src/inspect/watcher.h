#pragma once

#include <map>
#include <string>
#include <vector>

#include "attend/inspect/run.h"

namespace attend {

/// Which sides an attention module looks from and at, and where it stands in the model, by its path.
struct AttentionPlace {
  std::string stack;
  int64_t layer = 0, query_side = 0, key_side = 0;
};
AttentionPlace place_of(const std::string& path, bool is_pair);

/// Keeps what a pass computes and switches off what shall be.
class Watcher final : public Observer {
 public:
  Watcher(const RunOptions& options, bool is_pair) : options_(options), is_pair_(is_pair) {}

  void attended(const AttentionTrace& trace) override;
  void computed(std::string_view what, const Tensor& value) override;
  Ablation ablation() override;

  /// Everything in order. Throws ShapeError if something was to be switched off that is not there.
  std::vector<RunAttention> take_attention();
  std::vector<NamedTensor> take_values() { return std::move(values_); }

 private:
  struct Seen {
    std::string path;
    std::vector<AttentionTrace> traces;  // of a recurrent decoder one for each step
    std::vector<Tensor> queries;         // W s of additive scores, [1, states, hidden]
    Tensor keys, additive;
  };
  Seen& seen(const std::string& path);
  static RunAttention joined(Seen& seen);

  const RunOptions& options_;
  bool is_pair_;
  std::vector<Seen> seen_;
  std::map<std::string, size_t> index_;
  std::vector<NamedTensor> values_;
  std::map<std::string, size_t> value_index_;
};

}  // namespace attend
