#pragma once

#include <string>

#include "attend/nn/feed_forward.h"
#include "attend/nn/multihead_attention.h"
#include "attend/nn/norm.h"
#include "case.h"

// Converts PyTorch's parameters and masks for our modules. Packed parameters are split by differentiable slices, so
// that gradients arrive in PyTorch's packed layout.
namespace attend::golden {

Linear torch_linear(Case& c, const std::string& name);
LayerNorm torch_layer_norm(Case& c, const std::string& name, double eps);
/// nn.MultiheadAttention under `prefix` ("" or ending in a dot). The parameters that exist determine the config.
MultiheadAttention torch_attention(Case& c, const std::string& prefix, MultiheadAttentionConfig config);
Activation torch_activation(const std::string& name);

/// The names of the masks of one attention call.
struct MaskNames {
  std::string mask;  ///< [queries, keys] or [batch · heads, queries, keys]
  std::string keys;  ///< [batch, keys]
  int64_t heads = 1;
};
/// Reads the masks that exist. A boolean mask has PyTorch's meaning (true = ignore) unless the option
/// `<name>_true_means` is "attend". A mask of floats is added to the scores.
MaskOptions torch_masks(Case& c, const MaskNames& names);

}  // namespace attend::golden
