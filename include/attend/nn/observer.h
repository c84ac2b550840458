#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "attend/ops/attention.h"
#include "attend/tensor/tensor.h"

// Inspecting and changing a forward pass. A caller passes an Observer in the ForwardPass. Modules report their path,
// intermediate values and attention calls to it, and compute on with the values that it returns. Without an observer
// nothing is stored, and the forward pass is not slower.
namespace attend {

/// The inputs of one fused attention call and its log-sum-exp, from which its weights can be computed. q, k and v are
/// [batch, heads, length, head_dim].
struct AttentionTrace {
  std::string path;  ///< path of the module, a prefix of its parameters' names: "encoder.layers.0.attention"
  Tensor q, k, v, lse;
  AttentionOptions options;

  /// Computes the selected weights.
  AttentionWeights weights(const WeightSelection& selection = {}) const;
  /// All weights, averaged over the heads: [batch, queries, keys].
  Tensor average_weights() const;
};

/// The heads and keys to switch off in an attention call.
struct Ablation {
  std::vector<int64_t> heads;  ///< heads whose part of the output becomes 0
  std::vector<int64_t> keys;   ///< key positions that no query may attend to
};

/// Receives the intermediate values of a forward pass. Override the functions of interest.
class Observer {
 public:
  virtual ~Observer() = default;

  /// Path of the current module: the names of the enclosing modules, joined by dots.
  const std::string& path() const { return path_; }

  /// Called after an attention call.
  virtual void attended(const AttentionTrace& /*trace*/) {}
  /// Called after the module at path() has computed a value. `what` is the name of the value:
  /// - "tokens": token embeddings; "scaled": the same times √dim; "positions" and "types": what is added to them;
  ///   "summed": the sum of all embeddings, before a norm that follows; "embedded": input of the first layer;
  /// - "input" and "output" of a layer; "final": output of the last norm;
  /// - "normed" (output of a norm), "branch" (output of a residual branch) and "residual" (the branch added to its
  ///   input, before a norm that follows) of each half of a layer;
  /// - "queries" and "keys" before their norm and rotation, "attended" (the heads' outputs, concatenated) and
  ///   "projected" of attention;
  /// - "activated" of a feed-forward network;
  /// - "transformed" and "readout" of an encoder's head for masked words: the outputs of its layer and of its norm;
  /// - "text" and "pooled" of a classifier: the vector of the whole text, before and after the pooler;
  /// - "tokens" and "states" of a recurrent encoder; "words", "outputs", "context" (the attended memory) and "readout"
  ///   of its decoder, "states" before each step;
  /// - "query" (W s), "key" (U h) and "score" (the parameter v) of additive attention, before it attends.
  virtual void computed(std::string_view /*what*/, const Tensor& /*value*/) {}
  /// Called with the same arguments before computed(). The module at path() computes on with the returned tensor, which
  /// must have the shape, dtype and device of `value`; an empty tensor keeps `value`. Replacing has no effect on values
  /// that are only reported: "positions", "types", "queries", "keys", "text", "pooled", a decoder's "states", and those
  /// of additive attention.
  virtual Tensor replacement(std::string_view /*what*/, const Tensor& /*value*/) { return {}; }
  /// Called before the Transformer layer at path() is computed. If the returned tensor is not empty, it becomes the
  /// layer's "output" and the layer is not computed.
  virtual Tensor known_output() { return {}; }
  /// Called by the attention module at path() before it attends. Returns the heads and keys to switch off.
  virtual Ablation ablation() { return {}; }

 private:
  friend class ObservedPart;
  std::string path_;
};

/// Stores the trace of every attention call, in order.
class AttentionRecorder : public Observer {
 public:
  std::vector<AttentionTrace> traces;

  void attended(const AttentionTrace& trace) override { traces.push_back(trace); }
};

/// While alive, adds the name of a module to the observer's path. Does nothing without an observer.
class ObservedPart {
 public:
  ObservedPart(Observer* observer, std::string_view name) : observer_(observer) {
    if (observer_) enter(name);
  }
  /// Adds "name.index", for an element of a list of modules.
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
  size_t length_ = 0;  // length of the path before enter()
};

}  // namespace attend
