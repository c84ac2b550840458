#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "attend/inspect/attribute.h"

// Activation patching (causal tracing; Vig et al. 2020, Meng et al. 2022): activations of one run are copied into
// another run, to see which of them change its prediction.
namespace attend {

enum class PatchKind {
  residual,      ///< the input of a layer; the row after the last layer is its output
  attention,     ///< the output of self-attention
  cross,         ///< the output of cross-attention
  feed_forward,  ///< the output of the feed-forward network
  head           ///< one head, at all places
};
const char* name_of(PatchKind kind);

/// One patch. Its value is that of the other run.
struct Patch {
  std::string point;            ///< name of the activation
  std::vector<int64_t> places;  ///< empty: all
  int64_t head = -1;            ///< only this head's part
};

/// The change of the goal by each patch of a kind, over the layers of a stack and its places, or its heads.
struct PatchMap {
  PatchKind kind = PatchKind::residual;
  std::string stack;                        ///< "encoder", "decoder", "stack" or "rnn"
  std::vector<std::string> points;          ///< name of the activation of each row
  int64_t columns = 0;                      ///< places of the stack's side, or heads
  std::vector<std::vector<double>> values;  ///< the goal's value after the patch
};

struct PatchResult;

struct PatchOptions {
  Goal goal{};  ///< default: the other text's best class against this text's, at the last output where these differ
  std::vector<PatchKind> kinds{};  ///< default: all that the model has
  int64_t most_runs = 20000;       ///< maximum number of patches
  OnSteps on_step{};
  /// Called after each patch, with the cells computed so far: the last rows of the maps are shorter, or missing.
  std::function<void(const PatchResult&)> on_partial{};
};

struct PatchResult {
  Goal goal;
  double value = 0, other = 0;  ///< the goal's value in this run and in the other run
  std::vector<PatchMap> maps;

  /// How far a patch moves the goal: 0 = not at all, 1 = to its value in the other run.
  double share(double patched) const { return other == value ? 0 : (patched - value) / (other - value); }
};

/// Copies activations of `other` into `experiment`, one place or head at a time. Layers before a patch are not computed
/// again, and a patch with the same bits in both runs needs no run. Both must be of the same model, with as many tokens
/// on each side. Throws ShapeError if they are not, if there are more patches than `most_runs`, or if both runs prefer
/// the same class and the goal names none.
PatchResult patch_sweep(const Experiment& experiment, const Experiment& other, const PatchOptions& options = {});

/// The logits of `experiment` [outputs, classes] with some activations of `other`. No patches change no bit; patching
/// the embeddings of all sides at all places gives the logits of `other` exactly.
Tensor patched_logits(const Experiment& experiment, const Experiment& other, const std::vector<Patch>& patches);

}  // namespace attend
