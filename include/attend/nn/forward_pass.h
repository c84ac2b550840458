#pragma once

#include <functional>

#include "attend/base/random.h"
#include "attend/nn/observer.h"
#include "attend/tensor/tensor.h"

namespace attend {

class ContextPart;

/// Arguments of a forward pass besides its inputs. Training and randomness are explicit arguments, not hidden state.
struct ForwardPass {
  Rng* rng = nullptr;            ///< source of dropout masks; null: no dropout
  Observer* observer = nullptr;  ///< receives intermediate values; may be null
  bool recompute = false;  ///< backward() computes each Transformer layer again, instead of keeping its activations
  /// Not null: the inputs are this process's part of sequences that several processes divide among themselves. Only for
  /// language models, on the CPU.
  const ContextPart* context = nullptr;

  /// Passes a value to the observer, if there is one. Returns the observer's replacement, or `value`.
  Tensor show(std::string_view what, const Tensor& value) const { return observer ? shown(what, value) : value; }

 private:
  Tensor shown(std::string_view what, const Tensor& value) const;
};

/// layer(pass), without what it recorded; backward() runs the layer again, with the same dropout masks. `layer` must
/// own or outlive what it uses.
Tensor recomputed_layer(const ForwardPass& pass, const std::function<Tensor(const ForwardPass&)>& layer);

/// dropout(x, p) if the pass has an Rng, else x.
Tensor drop(const Tensor& x, double p, const ForwardPass& pass);

}  // namespace attend
