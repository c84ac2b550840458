#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "attend/ops/attention.h"
#include "attend/tensor/tensor.h"

// Looking inside: whoever wants to see what a model computes passes an Observer with the ForwardPass. Modules tell
// it where they are, what they computed and how they attended; without one nothing is kept and nothing is slower.
namespace attend {

/// What one fused attention call leaves behind, enough to ask for its weights afterwards. [batch, heads, length, dim].
struct AttentionTrace {
  std::string path;  ///< which module, "encoder.layers.0.attention": named as its parameters are; empty: a lone module
  Tensor q, k, v, lse;
  AttentionOptions options;

  /// The weights of chosen heads and rows, or the largest few: computed now, and only these.
  AttentionWeights weights(const WeightSelection& selection = {}) const;
  /// All weights, averaged over the heads: [batch, queries, keys].
  Tensor average_weights() const;
};

/// What an attention call shall do without.
struct Ablation {
  std::vector<int64_t> heads;  ///< their part of the output becomes 0
  std::vector<int64_t> keys;   ///< positions that no query may look at
};

class Observer {
 public:
  virtual ~Observer() = default;

  /// Where the pass is: the names of the modules entered so far, joined by dots.
  const std::string& path() const { return path_; }

  /// An attention call has ended.
  virtual void attended(const AttentionTrace& /*trace*/) {}
  /// The module at path() has computed a value. Names: "tokens" (embeddings of ids alone), "embedded" (what the first
  /// layer gets), "input" and "output" of a layer, "normed" (a norm before a branch), "attended" (the heads side by
  /// side) and "projected" of attention, "activated" of a feed-forward network, "branch" and "residual" (the branch
  /// added to its input, before a norm that follows) of each half of a layer, "final" (after the last norm). Additive
  /// attention shows "query" (W s), "key" (U h) and "score" (v, its parameter), before it attends.
  virtual void computed(std::string_view /*what*/, const Tensor& /*value*/) {}
  /// Asked by the attention module at path() before it attends.
  virtual Ablation ablation() { return {}; }

 private:
  friend class ObservedPart;
  std::string path_;
};

/// Keeps the trace of every attention call, in order.
class AttentionRecorder : public Observer {
 public:
  std::vector<AttentionTrace> traces;

  void attended(const AttentionTrace& trace) override { traces.push_back(trace); }
};

/// The part of the model that is at work for as long as this lives. Costs nothing without an observer.
class ObservedPart {
 public:
  ObservedPart(Observer* observer, std::string_view name) : observer_(observer) {
    if (observer_) enter(name);
  }
  /// "name.index", for one of several alike.
  ObservedPart(Observer* observer, std::string_view name, size_t index) : observer_(observer) {
    if (observer_) enter(std::string(name) + "." + std::to_string(index));
  }
  ~ObservedPart() {
    if (observer_) observer_->path_.resize(length_);
  }
  ObservedPart(const ObservedPart&) = delete;
  ObservedPart& operator=(const ObservedPart&) = delete;

 private:
  void enter(std::string_view name);

  Observer* observer_;
  size_t length_ = 0;  // of the path before
};

}  // namespace attend
