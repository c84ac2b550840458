#pragma once

#include <string>

#include "attend/nn/feed_forward.h"
#include "attend/nn/multihead_attention.h"
#include "attend/nn/norm.h"
#include "case.h"

// PyTorch's parameters and masks as our modules want them. Packed parameters are cut by differentiable slices, so that
// gradients arrive in PyTorch's packing by themselves.
namespace attend::golden {

Linear torch_linear(Case& c, const std::string& name);
LayerNorm torch_layer_norm(Case& c, const std::string& name, double eps);
/// nn.MultiheadAttention below `prefix` ("" or ending in a dot). Its extra and separate parameters decide the config.
MultiheadAttention torch_attention(Case& c, const std::string& prefix, MultiheadAttentionConfig config);
Activation torch_activation(const std::string& name);

/// Where one attention call finds its masks.
struct MaskNames {
  std::string mask;  ///< [queries, keys] or [batch · heads, queries, keys]
  std::string keys;  ///< [batch, keys]
  int64_t heads = 1;
};
/// Reads them if they are there. A boolean mask has PyTorch's meaning (true = ignore) unless the option
/// `<name>_true_means` says "attend"; one of floats is added to the scores.
MaskOptions torch_masks(Case& c, const MaskNames& names);

}  // namespace attend::golden
