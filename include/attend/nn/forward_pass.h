#pragma once

#include "attend/base/random.h"
#include "attend/nn/observer.h"
#include "attend/tensor/tensor.h"

namespace attend {

/// What a forward pass needs beyond its inputs. Training and randomness are arguments, not hidden state.
struct ForwardPass {
  Rng* rng = nullptr;            ///< where dropout takes its masks from; null: no dropout
  Observer* observer = nullptr;  ///< sees what is computed; null: nobody looks

  /// Shows a value to the observer, if there is one; passes it on.
  const Tensor& show(std::string_view what, const Tensor& value) const {
    if (observer) observer->computed(what, value);
    return value;
  }
};

/// Dropout if the pass has an rng, else x.
Tensor drop(const Tensor& x, double p, const ForwardPass& pass);

}  // namespace attend
