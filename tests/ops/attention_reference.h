#pragma once

#include <vector>

#include "attend/ops/attention.h"

namespace attend::testing {

/// Attention by its definition, in float64, independent of the library. All implementations are compared with it.
struct AttentionReference {
  std::vector<double> output, weights, lse;
};

AttentionReference reference_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& o);

}  // namespace attend::testing
